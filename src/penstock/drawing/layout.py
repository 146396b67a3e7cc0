"""Coordinates for a drawing: where boxes and labels are and how links run between them.

Links run downwards in smooth curves between the rows and never through a box: every row they pass has a cell for them.
Links that lead back up, and the longest when there are too many, run in lanes beside the rows they span.

Above it: `svg`. Below it: `layers` decides rows and order. It knows nothing about workflows or markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from penstock.drawing.layers import Box, Cell, CellKind, Layers, Link, layers_of

__all__ = ["Arrangement", "Command", "Strand", "arrange"]

# A step of a path, as in SVG: M and L with a point, C with two control points and a point, Q with one of each.
Command: TypeAlias = tuple[str, tuple[float, ...]]

_BOX_GAP = 36.0
_LABEL_GAP = 18.0
_BEND_GAP = 16.0
_ROW_GAP = 21.0
# Next to the border of a panel, where rows have no height.
_BORDER_GAP = 15.0
_GAP_MAX = 64.0
# How much a gap grows with the horizontal distance of its links, so that curves are not too flat.
_GAP_SLOPE = 0.2
_LANE_GAP = 22.0
_LANE_TRACK = 10.0
_LANE_TURN = 13.0
# How far the label of a lane extends over its line towards the inside.
_LABEL_INSET = 14.0
_PORT_STEP = 22.0
_PORT_MARGIN = 44.0
_PORT_SHIFT_MAX = 8.0
_CORNER = 9.0
_SWEEPS = 14
_STRAIGHT = 0.75
# How strongly cells keep their place when there is not enough room for all.
_WEIGHTS = {CellKind.BOX: 4.0, CellKind.LABEL: 2.0, CellKind.BEND: 1.0}
_MAIN_FACTOR = 24.0
# A sideways step smaller than this looks like a mistake.
_JOG_MAX = 48.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strand:
    """A drawn piece of a link; `tip` is where its arrow head points down to, if it has one."""

    link: int
    commands: tuple[Command, ...]
    tip: tuple[float, float] | None = None


@dataclass(slots=True, kw_only=True)
class Arrangement:
    """A finished layout. Boxes are placed by their upper left corner, labels by their centre."""

    width: float = 0
    height: float = 0
    boxes: dict[int, tuple[float, float]] = field(default_factory=dict)
    labels: dict[int, tuple[float, float]] = field(default_factory=dict)
    strands: list[Strand] = field(default_factory=list)


def arrange(boxes: Sequence[Box], links: Sequence[Link], last: int | None = None) -> Arrangement:
    """Lay out boxes and links. The first box is the start; `last` is kept below all others."""
    layers = layers_of(boxes, links, last)
    _set_columns(layers)
    rows = _rows(layers, links)
    router = _Router(layers=layers, links=links, rows=rows, arrangement=Arrangement())
    router.run()
    return router.arrangement


# Columns


def _separation(left: Cell, right: Cell) -> float:
    gaps = {CellKind.BOX: _BOX_GAP, CellKind.LABEL: _LABEL_GAP, CellKind.BEND: _BEND_GAP}
    return (left.width + right.width) / 2 + max(gaps[left.kind], gaps[right.kind]) * (
        0.7 if left.kind is not right.kind else 1
    )


def _set_columns(layers: Layers) -> None:
    for row in layers.rows:
        position = 0.0
        for index, cell in enumerate(row):
            position = position + _separation(row[index - 1], cell) if index else 0.0
            cell.x = position
        for cell in row:
            cell.x -= position / 2
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for row in layers.rows if downwards else layers.rows[::-1]:
            _settle(row, downwards=downwards)
    for row in layers.rows:
        _straighten(row)
    for part in _parts(layers)[1:]:
        _move_close(layers, part)


def _parts(layers: Layers) -> list[list[Cell]]:
    """The groups of connected cells, each from left to right."""
    seen: set[int] = set()
    parts: list[list[Cell]] = []
    for start in (cell for row in layers.rows for cell in row):
        part: list[Cell] = []
        pending = [start]
        while pending:
            cell = pending.pop()
            if id(cell) not in seen:
                seen.add(id(cell))
                part.append(cell)
                pending.extend((*cell.above, *cell.below))
        if part:
            parts.append(part)
    return sorted(parts, key=lambda part: min(cell.x for cell in part))


def _move_close(layers: Layers, part: list[Cell]) -> None:
    """Move a part that is not linked to the rest next to what is on its left."""
    inside = {id(cell) for cell in part}
    beside = ((layers.rows[cell.row][cell.order - 1], cell) for cell in part if cell.order > 0)
    room = [cell.x - before.x - _separation(before, cell) for before, cell in beside if id(before) not in inside]
    for cell in part:
        cell.x -= max(0.0, min(room, default=0.0))


def _straighten(row: list[Cell]) -> None:
    """Put a cell exactly below its only or main neighbour if the distance is small and nothing is in the way."""
    for index, cell in enumerate(row):
        main = [neighbour for neighbour in cell.above if neighbour.is_main]
        chosen = main if len(main) == 1 else cell.above
        if len(chosen) != 1 or abs(chosen[0].x - cell.x) > _JOG_MAX:
            continue
        least = row[index - 1].x + _separation(row[index - 1], cell) if index else chosen[0].x
        most = row[index + 1].x - _separation(cell, row[index + 1]) if index + 1 < len(row) else chosen[0].x
        if least <= chosen[0].x <= most:
            cell.x = chosen[0].x


def _settle(row: list[Cell], *, downwards: bool) -> None:
    """Move the cells of a row as close to their neighbours as order and distances allow (isotonic regression)."""
    offset = 0.0
    blocks: list[tuple[float, float, int]] = []  # mean wish, weight, number of cells
    offsets: list[float] = []
    for index, cell in enumerate(row):
        offset += _separation(row[index - 1], cell) if index else 0.0
        offsets.append(offset)
        wish, weight = _wish(cell, downwards=downwards)
        blocks.append((wish - offset, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, first_weight, first_count), (second, second_weight, second_count) = blocks[-2:]
            weight = first_weight + second_weight
            mean = (first * first_weight + second * second_weight) / weight
            blocks[-2:] = [(mean, weight, first_count + second_count)]
    settled = [mean for mean, _, count in blocks for _ in range(count)]
    for cell, base, own_offset in zip(row, settled, offsets, strict=True):
        cell.x = base + own_offset


def _wish(cell: Cell, *, downwards: bool) -> tuple[float, float]:
    neighbours = cell.above if downwards else cell.below
    if not neighbours:
        return cell.x, 0.05
    # The main line stays straight; side lines give way to it.
    main = [neighbour for neighbour in neighbours if neighbour.is_main] if cell.kind is CellKind.BOX else []
    chosen = main or neighbours
    weight = _WEIGHTS[cell.kind] * (_MAIN_FACTOR if cell.is_main or main else 1)
    return sum(neighbour.x for neighbour in chosen) / len(chosen), weight


# Rows


@dataclass(slots=True, kw_only=True)
class _Row:
    top: float = 0
    bottom: float = 0
    lanes_below: list[int] = field(default_factory=list)
    lanes_above: list[int] = field(default_factory=list)


def _rows(layers: Layers, links: Sequence[Link]) -> list[_Row]:
    rows = [_Row() for _ in layers.rows]
    for index in layers.aside:
        rows[layers.boxes[links[index].source].row].lanes_below.append(index)
        rows[layers.boxes[links[index].target].row].lanes_above.append(index)
    y = _lane_room(rows[0].lanes_above) if rows else 0.0
    for index, (row, cells) in enumerate(zip(rows, layers.rows, strict=True)):
        row.top = y
        row.bottom = y + max((cell.height for cell in cells), default=0.0)
        y = row.bottom + _lane_room(row.lanes_below)
        if index + 1 < len(rows):
            y += _gap(cells, layers.rows[index + 1]) + _lane_room(rows[index + 1].lanes_above)
    return rows


def _lane_room(lanes: list[int]) -> float:
    return _LANE_TRACK * (len(lanes) - 1) + _LANE_TURN if lanes else 0.0


def _gap(upper: list[Cell], lower: list[Cell]) -> float:
    distance = max((abs(cell.x - below.x) for cell in upper for below in cell.below), default=0.0)
    has_border = any(cell.kind is CellKind.BOX and cell.height == 0 for cell in (*upper, *lower))
    return max(_BORDER_GAP if has_border else _ROW_GAP, min(_GAP_MAX, distance * _GAP_SLOPE))


# Links


@dataclass(slots=True, kw_only=True)
class _Router:
    layers: Layers
    links: Sequence[Link]
    rows: list[_Row]
    arrangement: Arrangement
    _ports: dict[tuple[int, int], float] = field(default_factory=dict)
    _lanes: list[tuple[int, int, float, float]] = field(default_factory=list)  # first row, last row, left, right

    def run(self) -> None:
        for key, cell in self.layers.boxes.items():
            self.arrangement.boxes[key] = (cell.x - cell.width / 2, self.rows[cell.row].top)
            self._set_ports(cell, cell.below)
            self._set_ports(cell, cell.above)
        for index, cell in self.layers.labels.items():
            row = self.rows[cell.row]
            self.arrangement.labels[index] = (cell.x, (row.top + row.bottom) / 2)
        drawn: set[tuple[int, int]] = set()
        for index, chain in self.layers.chains.items():
            self._draw_chain(index, chain, drawn)
        # Short lanes first: longer ones run around them.
        for index in sorted(self.layers.aside, key=self._span):
            self._draw_lane(index)
        self._normalise()

    def _set_ports(self, cell: Cell, neighbours: list[Cell]) -> None:
        """Spread the links on one side of a box; a straight link stays in the middle."""
        ordered = sorted(neighbours, key=lambda neighbour: neighbour.x)
        straight = [index for index, neighbour in enumerate(ordered) if abs(neighbour.x - cell.x) < _PORT_SHIFT_MAX]
        middle = straight[0] if straight else (len(ordered) - 1) / 2
        longest = max(middle, len(ordered) - 1 - middle, 1)
        step = min(_PORT_STEP, max(0.0, cell.width - _PORT_MARGIN) / 2 / longest)
        for index, neighbour in enumerate(ordered):
            centre = neighbour.x if index in straight[:1] else cell.x
            self._ports[id(cell), id(neighbour)] = centre + (index - middle) * step

    def _draw_chain(self, index: int, chain: list[Cell], drawn: set[tuple[int, int]]) -> None:
        points: list[tuple[float, float]] = []
        for upper, lower in pairwise(chain):
            if (id(upper), id(lower)) in drawn:
                break
            drawn.add((id(upper), id(lower)))
            if not points:
                points.extend(self._leave(upper, lower))
            points.append((self._ports.get((id(lower), id(upper)), lower.x), self.rows[lower.row].top))
            if lower.kind is CellKind.LABEL:
                # The line stops at the label and continues below it.
                height = (self.rows[lower.row].bottom - self.rows[lower.row].top - lower.height) / 2
                points.append((lower.x, points[-1][1] + height))
                self._add_strand(index, points, tip=False)
                points = []
            elif lower.kind is CellKind.BEND:
                points.append((lower.x, self.rows[lower.row].bottom))
        ends = chain[-1].kind is CellKind.BOX and (id(chain[-2]), id(chain[-1])) in drawn
        if points:
            self._add_strand(index, points, tip=ends and points[-1][1] == self.rows[chain[-1].row].top)

    def _leave(self, upper: Cell, lower: Cell) -> Iterator[tuple[float, float]]:
        x = self._ports.get((id(upper), id(lower)), upper.x)
        row = self.rows[upper.row]
        inset = (row.bottom - row.top - upper.height) / 2 if upper.kind is CellKind.LABEL else 0.0
        if upper.kind is CellKind.BOX:
            yield x, row.top + upper.height
        elif upper.kind is CellKind.LABEL:
            yield x, row.bottom - inset
        yield x, row.bottom

    def _add_strand(self, index: int, points: list[tuple[float, float]], *, tip: bool) -> None:
        self.arrangement.strands.append(
            Strand(link=index, commands=tuple(_curve(points)), tip=points[-1] if tip else None)
        )

    # Lanes

    def _span(self, index: int) -> int:
        link = self.links[index]
        return abs(self.layers.boxes[link.source].row - self.layers.boxes[link.target].row)

    def _draw_lane(self, index: int) -> None:
        link = self.links[index]
        source, target = self.layers.boxes[link.source], self.layers.boxes[link.target]
        source_row, target_row = self.rows[source.row], self.rows[target.row]
        x, side = self._lane_position(target, source)
        label_x = x + side * max(0.0, link.label_width / 2 - _LABEL_INSET)
        first_row, last_row = sorted((source.row, target.row))
        self._lanes.append(
            (first_row, last_row, min(x, label_x - link.label_width / 2), max(x, label_x + link.label_width / 2))
        )
        below, above = source_row.lanes_below.index(index), target_row.lanes_above.index(index)
        is_outermost = self.layers.rows[source.row][-1 if side > 0 else 0] is source
        floor = source_row.top + source.height if is_outermost else source_row.bottom
        bottom = floor + _LANE_TURN + _LANE_TRACK * below
        top = target_row.top - _LANE_TURN - _LANE_TRACK * above
        start_x = self._lane_port(source, side, source.below, below)
        end_x = self._lane_port(target, side, target.above, above)
        self._add_lane_strand(
            index,
            [
                (start_x, source_row.top + source.height),
                (start_x, bottom),
                (x, bottom),
                (x, top),
                (end_x, top),
                (end_x, target_row.top),
            ],
        )
        if link.label_width > 0:
            self.arrangement.labels[index] = (label_x, (top + bottom) / 2)

    def _add_lane_strand(self, index: int, points: list[tuple[float, float]]) -> None:
        self.arrangement.strands.append(Strand(link=index, commands=tuple(_corners(points)), tip=points[-1]))

    def _lane_position(self, target: Cell, source: Cell) -> tuple[float, int]:
        """The place of a lane outside everything in its rows, on the nearer side; -1 is left, 1 is right."""
        first_row, last_row = sorted((source.row, target.row))
        cells = [cell for row in self.layers.rows[first_row : last_row + 1] for cell in row]
        lanes = [lane for lane in self._lanes if lane[0] <= last_row and lane[1] >= first_row]
        left = min([cell.x - cell.width / 2 for cell in cells] + [lane[2] for lane in lanes]) - _LANE_GAP
        right = max([cell.x + cell.width / 2 for cell in cells] + [lane[3] for lane in lanes]) + _LANE_GAP
        to_left, to_right = source.x + target.x - 2 * left, 2 * right - source.x - target.x
        return (left, -1) if to_left < to_right - _LANE_GAP else (right, 1)

    def _lane_port(self, cell: Cell, side: int, neighbours: list[Cell], number: int) -> float:
        """A place on the edge of a box, next to those of its other links."""
        ports = [self._ports[id(cell), id(neighbour)] for neighbour in neighbours]
        outermost = max([side * (port - cell.x) for port in ports] or [-_PORT_STEP])
        room = max(cell.width / 2 - _CORNER * 2, 0)
        return cell.x + side * min(room, outermost + _PORT_STEP * (number + 1))

    def _normalise(self) -> None:
        """Move everything so that the upper left corner of the drawing is at zero."""
        arrangement = self.arrangement
        lefts = [x for x, _ in arrangement.boxes.values()] + [lane[2] for lane in self._lanes]
        rights = [cell.x + cell.width / 2 for row in self.layers.rows for cell in row]
        lefts += [cell.x - cell.width / 2 for row in self.layers.rows for cell in row]
        rights += [lane[3] for lane in self._lanes]
        left = min(lefts, default=0.0)
        arrangement.width = max(rights, default=0.0) - left
        last = self.rows[-1] if self.rows else _Row()
        arrangement.height = last.bottom + _lane_room(last.lanes_below)
        arrangement.boxes = {key: (x - left, y) for key, (x, y) in arrangement.boxes.items()}
        arrangement.labels = {key: (x - left, y) for key, (x, y) in arrangement.labels.items()}
        arrangement.strands = [_moved(strand, -left) for strand in arrangement.strands]


def _moved(strand: Strand, distance: float) -> Strand:
    commands = tuple(
        (name, tuple(value + distance if index % 2 == 0 else value for index, value in enumerate(values)))
        for name, values in strand.commands
    )
    tip = None if strand.tip is None else (strand.tip[0] + distance, strand.tip[1])
    return Strand(link=strand.link, commands=commands, tip=tip)


def _curve(points: Sequence[tuple[float, float]]) -> Iterator[Command]:
    """A line through points that leaves and enters each of them vertically."""
    yield "M", points[0]
    for (x, y), (next_x, next_y) in pairwise(points):
        if abs(next_x - x) < _STRAIGHT:
            yield "L", (next_x, next_y)
        else:
            middle = (y + next_y) / 2
            yield "C", (x, middle, next_x, middle, next_x, next_y)


def _corners(points: Sequence[tuple[float, float]]) -> Iterator[Command]:
    """A line of horizontal and vertical pieces with rounded corners."""
    yield "M", points[0]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        yield "L", _towards(corner, before)
        yield "Q", (*corner, *_towards(corner, after))
    yield "L", points[-1]


def _towards(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """A point near a corner in the direction of another point, at most half way."""
    return _nearer(corner[0], other[0]), _nearer(corner[1], other[1])


def _nearer(start: float, end: float) -> float:
    return start + max(-_CORNER, min(_CORNER, (end - start) / 2))

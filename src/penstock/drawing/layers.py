"""Layers of a drawing: the row of every box, label and bend, and their order within the rows.

The steps are the classical ones of layered graph drawing (Sugiyama). Links that close a cycle are set aside. The rest
gives each box its row, the longest distance from the start. Labels and the bends of long links become cells in the rows
between. Rows are then reordered by barycentre until few links cross. Boxes are in even rows; labels and bends are in
rows of either kind.

Above it: `layout` turns rows into coordinates. It knows nothing about workflows.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

__all__ = ["Box", "Cell", "CellKind", "Layers", "Link", "layers_of"]

# Sweeps down and up the rows; more do not help for drawings that a person can read.
_SWEEPS_MAX = 12
# With more cells than this a drawing is a map, and a few sweeps must do.
_CELLS_MANY = 3000
_SWEEPS_FEW = 2
# Every row that a link passes costs a cell. Without a bound, many long links would cost the square of the box count.
_BENDS_MAX = 12_000
_SHORT_BENDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle that needs a place."""

    key: int
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A connection between boxes. Links of one `bundle` to the same target share their path."""

    source: int
    target: int
    bundle: str
    label_width: float = 0
    label_height: float = 0
    is_main: bool = False  # main links are drawn as straight as possible


class CellKind(StrEnum):
    """The kinds of things in a row."""

    BOX = "box"
    LABEL = "label"
    BEND = "bend"


@dataclass(slots=True, kw_only=True, eq=False)
class Cell:
    """Something with a place: a box, a label, or the point where a link passes through a row."""

    kind: CellKind
    row: int
    width: float
    height: float = 0
    box: int = -1  # the key, for a box
    is_main: bool = False
    order: int = 0
    x: float = 0
    above: list[Cell] = field(default_factory=list)
    below: list[Cell] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Layers:
    """The rows, the cells of each link from its source to its target, and the links that run beside the rows."""

    rows: list[list[Cell]]
    boxes: dict[int, Cell]
    chains: dict[int, list[Cell]]  # by the link's index
    labels: dict[int, Cell]
    aside: list[int]


def layers_of(boxes: Sequence[Box], links: Sequence[Link], last: int | None = None) -> Layers:
    """Arrange boxes in rows. The first box is the start; `last` is kept below all others."""
    back = _links_back(boxes, links)
    forward = [index for index in range(len(links)) if index not in back]
    ranks = _ranks(boxes, links, forward, last)
    inside = _with_room_inside(links, forward, ranks)
    rows: list[list[Cell]] = [[] for _ in range(2 * max(ranks.values(), default=0) + 1)]
    aside = sorted(back.union(forward).difference(inside))
    layers = Layers(rows=rows, boxes={}, chains={}, labels={}, aside=aside)
    for box in boxes:
        cell = Cell(kind=CellKind.BOX, row=2 * ranks[box.key], width=box.width, height=box.height, box=box.key)
        layers.boxes[box.key] = cell
        _put(layers, cell)
    bends: dict[tuple[int, str, int], Cell] = {}
    for index in inside:
        layers.chains[index] = _chain(layers, bends, links[index], index)
    _reduce_crossings(layers)
    return layers


def _put(layers: Layers, cell: Cell) -> Cell:
    cell.order = len(layers.rows[cell.row])
    layers.rows[cell.row].append(cell)
    return cell


def _links_back(boxes: Sequence[Box], links: Sequence[Link]) -> set[int]:
    """The links that close a cycle, found by walking from the first box in the order of the links."""
    leaving: dict[int, list[int]] = {box.key: [] for box in boxes}
    for index, link in enumerate(links):
        leaving[link.source].append(index)
    back: set[int] = set()
    open_boxes: set[int] = set()
    done: set[int] = set()
    for box in boxes:
        if box.key in done:
            continue
        open_boxes.add(box.key)
        walk = [(box.key, iter(leaving[box.key]))]
        while walk:
            key, rest = walk[-1]
            index = next(rest, -1)
            if index < 0:
                walk.pop()
                open_boxes.discard(key)
                done.add(key)
                continue
            target = links[index].target
            if target in open_boxes:
                back.add(index)
            elif target not in done:
                open_boxes.add(target)
                walk.append((target, iter(leaving[target])))
    return back


def _ranks(boxes: Sequence[Box], links: Sequence[Link], forward: Iterable[int], last: int | None) -> dict[int, int]:
    targets: dict[int, list[int]] = {box.key: [] for box in boxes}
    waiting: dict[int, int] = {box.key: 0 for box in boxes}
    for index in forward:
        targets[links[index].source].append(links[index].target)
        waiting[links[index].target] += 1
    roots = {key: None for key, count in waiting.items() if count == 0}
    # A box without incoming links goes below the start, never beside it.
    ranks = {box.key: 1 if box.key in roots and box.key != boxes[0].key else 0 for box in boxes}
    ready = list(roots)
    while ready:
        key = ready.pop()
        for target in targets[key]:
            ranks[target] = max(ranks[target], ranks[key] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    for key in roots:
        # A box without incoming links goes just above its targets, not at the top of the drawing.
        if targets[key] and key != boxes[0].key:
            ranks[key] = min(ranks[target] for target in targets[key]) - 1
    if last is not None:
        ranks[last] = max(ranks[last], 1 + max((rank for key, rank in ranks.items() if key != last), default=-1))
    return ranks


def _with_room_inside(links: Sequence[Link], forward: list[int], ranks: dict[int, int]) -> list[int]:
    """The links that may bend through the rows; when there are too many, the longest go around instead."""
    first: dict[tuple[int, str], int] = {}
    bends = 0
    inside: list[int] = []
    for index in sorted(forward, key=lambda index: ranks[links[index].target] - ranks[links[index].source]):
        link = links[index]
        way = (link.target, link.bundle)
        shared_from = first.get(way, ranks[link.target])
        added = 2 * max(0, shared_from - ranks[link.source])
        if bends + added <= _BENDS_MAX or added <= _SHORT_BENDS:
            bends += added
            first[way] = min(shared_from, ranks[link.source])
            inside.append(index)
    return sorted(inside)


def _chain(layers: Layers, bends: dict[tuple[int, str, int], Cell], link: Link, index: int) -> list[Cell]:
    """The cells of a link, row by row; it ends where it joins another link with the same target and bundle."""
    source, target = layers.boxes[link.source], layers.boxes[link.target]
    chain = [source]
    for row in range(source.row + 1, target.row):
        shared = bends.get((link.target, link.bundle, row))
        if row == source.row + 1 and link.label_width > 0:
            cell = Cell(kind=CellKind.LABEL, row=row, width=link.label_width, height=link.label_height)
            layers.labels[index] = _put(layers, cell)
        elif shared is not None:
            cell = shared
        else:
            cell = _put(layers, Cell(kind=CellKind.BEND, row=row, width=0))
            bends[link.target, link.bundle, row] = cell
        chain.append(cell)
        # All further cells exist. The walk only continues if they must be marked as part of a main line.
        if cell is shared and (cell.is_main or not link.is_main):
            break
        cell.is_main = cell.is_main or link.is_main
    else:
        chain.append(target)
    for upper, lower in pairwise(chain):
        if lower not in upper.below:
            upper.below.append(lower)
            lower.above.append(upper)
    return chain


def _reduce_crossings(layers: Layers) -> None:
    _order_by_discovery(layers)
    best, best_crossings = _orders(layers), _crossings(layers)
    cells_count = sum(len(row) for row in layers.rows)
    for sweep in range(_SWEEPS_MAX if cells_count <= _CELLS_MANY else _SWEEPS_FEW):
        if best_crossings == 0:
            break
        rows = layers.rows if sweep % 2 == 0 else layers.rows[::-1]
        for row in rows:
            _sort_by_barycentre(row, downwards=sweep % 2 == 0)
        crossings = _crossings(layers)
        if crossings < best_crossings:
            best, best_crossings = _orders(layers), crossings
    layers.rows[:] = best
    for row in layers.rows:
        _number(row)


def _order_by_discovery(layers: Layers) -> None:
    """Start with the order in which a walk from the top finds the cells, so that siblings stay together."""
    seen: set[int] = set()
    found: list[list[Cell]] = [[] for _ in layers.rows]
    for row in layers.rows:
        for start in row:
            pending = [start]
            while pending:
                cell = pending.pop()
                if id(cell) in seen:
                    continue
                seen.add(id(cell))
                found[cell.row].append(cell)
                pending.extend(reversed(cell.below))
    layers.rows[:] = found
    for row in layers.rows:
        _number(row)


def _number(row: list[Cell]) -> None:
    for order, cell in enumerate(row):
        cell.order = order


def _orders(layers: Layers) -> list[list[Cell]]:
    return [list(row) for row in layers.rows]


def _sort_by_barycentre(row: list[Cell], *, downwards: bool) -> None:
    def centre(cell: Cell) -> float:
        neighbours = cell.above if downwards else cell.below
        if not neighbours:
            return cell.order
        return sum(neighbour.order for neighbour in neighbours) / len(neighbours)

    row.sort(key=lambda cell: (centre(cell), cell.order))
    _number(row)


def _crossings(layers: Layers) -> int:
    """How often links between neighbouring rows cross: the number of inversions."""
    total = 0
    for row in layers.rows:
        ends: list[int] = []
        for cell in row:
            reached = sorted(lower.order for lower in cell.below)
            total += sum(len(ends) - bisect_right(ends, end) for end in reached)
            for end in reached:
                insort(ends, end)
    return total

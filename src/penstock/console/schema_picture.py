"""The schema of a graph as a drawing: the places of node types (boxes) and edge types (arrows).

Types that lead to others stand to the left of them. The template draws what this module placed, in SVG without styles
of its own; the same is said in words beside it. It does not cross as few arrows as possible.

Above it: the pages of graphs. Below it: nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.base import limits

__all__ = ["Arrow", "Box", "Picture", "schema_picture"]

_WIDTH, _GAP, _MARGIN = 190, 170, 20
_HEAD, _ROW, _FOOT, _SPACE = 30, 18, 8, 34
_PROPERTIES = 6
_CHARACTERS = 24
_BEND = 70


class Box(NamedTuple):
    """A type of nodes."""

    name: str
    label: str
    x: int
    y: int
    width: int
    height: int
    lines: list[tuple[int, str]]
    """Its properties: how far down, and the text."""


class Arrow(NamedTuple):
    """A type of edges."""

    name: str
    label: str
    path: str
    x: int
    y: int
    """Where its name stands,"""
    anchor: str
    """and which part of it stands there."""


class Picture(NamedTuple):
    """A whole schema."""

    width: int
    height: int
    boxes: list[Box]
    arrows: list[Arrow]


def schema_picture(types: list[dict[str, Any]]) -> Picture | None:
    """Place the types of a schema; None if it has no types, or too many for a drawing."""
    nodes = [item for item in types if item["kind"] == "node"]
    edges = [item for item in types if item["kind"] == "edge"]
    if not nodes or len(types) > limits.CONSOLE_SCHEMA_TYPES_MAX:
        return None
    columns = _columns([item["name"] for item in nodes], edges)
    below: dict[int, int] = {}
    boxes: dict[str, Box] = {}
    ports = _ports(edges)
    for item in nodes:
        column = columns[item["name"]]
        y = below.get(column, _MARGIN)
        box = _box(item, _MARGIN + column * (_WIDTH + _GAP), y, ports.get(item["name"], 0))
        boxes[box.name] = box
        below[column] = y + box.height + _SPACE
    arrows = _arrows(edges, boxes, columns)
    width = (max(columns.values()) + 1) * (_WIDTH + _GAP) + 2 * _MARGIN
    return Picture(width, max(below.values()), list(boxes.values()), arrows)


def _columns(names: list[str], edges: list[dict[str, Any]]) -> dict[str, int]:
    """Return the column of each type: one to the right of the first type that leads to it."""
    leads: dict[str, list[str]] = {name: [] for name in names}
    led_to: set[str] = set()
    for edge in edges:
        if edge["source"] != edge["target"] and edge["source"] in leads and edge["target"] in leads:
            leads[edge["source"]].append(edge["target"])
            led_to.add(edge["target"])
    columns: dict[str, int] = {}
    for first in [*(name for name in names if name not in led_to), *names]:
        if first in columns:
            continue
        columns[first] = 0
        waiting = [first]
        while waiting:
            name = waiting.pop(0)
            for other in leads[name]:
                if other not in columns:
                    columns[other] = columns[name] + 1
                    waiting.append(other)
    return columns


def _ports(edges: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many arrows leave or reach the fuller side of each type."""
    out: dict[str, int] = {}
    into: dict[str, int] = {}
    for edge in edges:
        out[edge["source"]] = out.get(edge["source"], 0) + 1
        into[edge["target"]] = into.get(edge["target"], 0) + 1
    return {name: max(out.get(name, 0), into.get(name, 0)) for name in {*out, *into}}


def _box(item: dict[str, Any], x: int, y: int, ports: int) -> Box:
    shown = [f"{each['name']}: {each['type']}{' (key)' if each['key'] else ''}" for each in item["properties"]]
    texts = [_cut(text) for text in shown[:_PROPERTIES]]
    if len(shown) > _PROPERTIES:
        texts.append(f"and {len(shown) - _PROPERTIES} more")
    lines = [(_HEAD + 4 + _ROW * (number + 1) - 6, text) for number, text in enumerate(texts)]
    height = _HEAD + _ROW * max(len(texts), ports, 1) + _FOOT
    return Box(item["name"], _cut(item["name"]), x, y, _WIDTH, height, lines)


def _arrows(edges: list[dict[str, Any]], boxes: dict[str, Box], columns: dict[str, int]) -> list[Arrow]:
    left: dict[str, int] = {}
    reached: dict[str, int] = {}
    found: list[Arrow] = []
    # Arrows that go on to the right leave above those that turn back, so that they do not cross.
    for edge in sorted(edges, key=lambda item: not _goes_on(item, columns)):
        source, target = boxes.get(edge["source"]), boxes.get(edge["target"])
        if source is None or target is None:
            continue
        begin = source.y + _HEAD + _ROW * left.get(source.name, 0) + 4
        end = target.y + _HEAD + _ROW * reached.get(target.name, 0) + 4
        left[source.name] = left.get(source.name, 0) + 1
        reached[target.name] = reached.get(target.name, 0) + 1
        found.append(_arrow(edge["name"], (source, begin), (target, end), columns))
    return found


def _goes_on(edge: dict[str, Any], columns: dict[str, int]) -> bool:
    return columns.get(edge["target"], 0) > columns.get(edge["source"], 0)


def _arrow(name: str, source: tuple[Box, int], target: tuple[Box, int], columns: dict[str, int]) -> Arrow:
    (box, begin), (other, end) = source, target
    x = box.x + box.width
    if columns[other.name] > columns[box.name]:
        path = f"M {x} {begin} C {x + _BEND} {begin}, {other.x - _BEND} {end}, {other.x - 4} {end}"
        return Arrow(name, _cut(name), path, (x + other.x) // 2, (begin + end) // 2 - 6, "middle")
    # To the same column, or back: out to the right and in again from the right.
    far = other.x + other.width
    end = max(begin + _ROW, end) if box.name == other.name else end
    path = f"M {x} {begin} C {x + _BEND} {begin}, {max(x, far) + _BEND} {end}, {far + 4} {end}"
    return Arrow(name, _cut(name), path, max(x, far) + _BEND * 3 // 4 + 6, (begin + end) // 2 + 4, "start")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"

"""The cost of checking a value against a JSON Schema, computed from the schema alone.

A validator follows every reference again, so a few hundred bytes of `allOf` over `$ref` can stand for millions of
visits. Each subschema gets a number of visits: its own, and those of everything that it applies, with references
expanded and counted once per use. Visits that happen once per value are counted apart from those that happen for each
element. A schema that refers to itself is counted by the depth of the value. The numbers are exact integers of any
size.

Above it: `compiled`, which refuses what costs too much, and the code that decides where a value is checked. It is not a
validator, and does not say whether a schema is valid. jsonschema-rs does both, but cannot say beforehand how long it
will take, and cannot be interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, json_pointer

__all__ = [
    "SchemaCost",
    "TooCostly",
    "is_prompt_to_check",
    "is_prompt_to_compile",
    "is_prompt_to_list",
    "pattern_units",
    "schema_cost",
]

# Applied to the value itself.
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_NAMED = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Applied to one element each.
_ONCE_LISTS = ("prefixItems",)
_ONCE_NAMED = ("properties",)
# Applied to any number of elements.
_REPEATED = (
    *("items", "additionalItems", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_REPEATED_NAMED = ("patternProperties",)
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
# These only hold schemas that others refer to.
_HELD_NAMED = ("$defs", "definitions")
_COUNTED = re.compile(r"\{(\d{1,9})?(?:,(\d{1,9})?)?\}")
# Classes that cover all of Unicode are hundreds of ranges. Without counts they are as cheap as others.
_WIDE = re.compile(r"\\[wWdDsSpPbB]|\.|\[\^")
_WIDE_FACTOR = 20
# Syntax that only a backtracking matcher supports: look-around and back-references.
_BACKTRACKING = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9]|\\k<")
# The largest depth of a value that is checked in this process against a schema that refers to itself.
_PROMPT_DEPTH = 16
# The cost of a violation in addition to its copy of the value.
_VIOLATION_BYTES = 100
# Schemas with more parts than this are not counted by depth; they are checked in another process.
_PROMPT_PARTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaCost:
    """The visits of a check: `once` for any value, plus `each` for every element."""

    once: int
    each: int
    pattern_units: int
    """The cost of compiling the patterns and of matching each character; at most about a microsecond per unit."""
    backtracks: bool
    """Whether the time of a pattern may grow faster than the text."""
    opaque: bool
    """Whether references use names that are not followed here."""
    by_depth: tuple[int, ...] | None
    """For a schema that refers to itself: all visits per element, by the depth of the value."""
    expands: bool
    """Whether compiling the schema expands its references."""


@dataclass(frozen=True, slots=True)
class TooCostly:
    """Why a schema is refused, and where in it (JSON pointer)."""

    message: str
    path: str
    hint: str


def is_prompt_to_compile(cost: SchemaCost, size_bytes: int) -> bool:
    """Whether building a validator for a schema of this size as JSON takes some tens of milliseconds at most."""
    if size_bytes > limits.SCHEMA_IN_PROCESS_BYTES_MAX or cost.opaque:
        return False
    if cost.pattern_units > limits.SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX:
        return False
    return not cost.expands or cost.once + cost.each <= limits.SCHEMA_IN_PROCESS_EXPANDED_MAX


def is_prompt_to_check(cost: SchemaCost, size_bytes: int, depth: int) -> bool:
    """Whether a yes-or-no check of a value of this size as JSON takes a few milliseconds at most."""
    if cost.opaque or cost.backtracks or size_bytes > limits.SCHEMA_IN_PROCESS_BYTES_MAX:
        return False
    if cost.pattern_units > limits.SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX:
        return False
    if cost.pattern_units * size_bytes > limits.SCHEMA_IN_PROCESS_MATCHING_MAX:
        return False
    return visits(cost, size_bytes, depth) <= limits.SCHEMA_IN_PROCESS_VISITS_MAX


def is_prompt_to_list(cost: SchemaCost, size_bytes: int, depth: int) -> bool:
    """Whether listing every violation takes some tens of milliseconds at most.

    Each violation holds a copy of the value that it is about.
    """
    listed = visits(cost, size_bytes, depth) * (_VIOLATION_BYTES + size_bytes)
    return is_prompt_to_check(cost, size_bytes, depth) and listed <= limits.SCHEMA_IN_PROCESS_LISTING_BYTES_MAX


def visits(cost: SchemaCost, size_bytes: int, depth: int) -> int:
    """The largest number of visits that checking a value takes."""
    elements = size_bytes // 2 + 1  # an element is at least one character and a comma
    if cost.by_depth is None:
        return cost.once + cost.each * elements
    if depth >= len(cost.by_depth):
        return limits.SCHEMA_IN_PROCESS_VISITS_MAX + 1
    return cost.by_depth[depth] * elements


def schema_cost(schema: JsonObject) -> SchemaCost | TooCostly:
    """Count the visits of a schema, or say why there would be too many."""
    parts = _Parts(schema)
    counter = _Counter(parts)
    try:
        once, each = counter.count(schema, 0)
    except _Exceeded as exceeded:
        return exceeded.problem
    by_depth = _by_depth(parts, schema) if counter.recursive else None
    return SchemaCost(
        once=once,
        each=each,
        pattern_units=sum(map(pattern_units, parts.patterns)),
        backtracks=any(_BACKTRACKING.search(pattern) for pattern in parts.patterns),
        opaque=parts.opaque,
        by_depth=by_depth,
        expands=parts.unevaluated,
    )


def pattern_units(pattern: str) -> int:
    """The size of a compiled pattern: counted repetitions are written out, and nested ones multiply."""
    units = len(pattern)
    counted = False
    for match in _COUNTED.finditer(pattern):
        largest = max(int(match[1] or 0), int(match[2] or 0), 1)
        counted = counted or largest > 1
        units *= largest
    return units * _WIDE_FACTOR if counted and _WIDE.search(pattern) else units


class _Parts:
    """The subschemas of a schema, what each of them applies, and where it is."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.paths: dict[int, tuple[str | int, ...]] = {}
        self.nodes: list[JsonObject] = []
        self.patterns: list[str] = []
        self.opaque = False
        self.unevaluated = False
        self._anchors: dict[str, JsonObject] = {}
        self._id = root.get("$id") if isinstance(root.get("$id"), str) else None
        self._collect(root)

    def _collect(self, root: JsonObject) -> None:
        waiting: list[tuple[JsonObject, tuple[str | int, ...]]] = [(root, ())]
        while waiting:
            node, path = waiting.pop()
            if id(node) in self.paths:
                continue
            self.paths[id(node)] = path
            self.nodes.append(node)
            self._note(node)
            for name, value in node.items():
                waiting.extend((inner, (*path, *at)) for at, inner in _schemas_in(name, value))

    def _note(self, node: JsonObject) -> None:
        pattern, named = node.get("pattern"), node.get("patternProperties")
        if isinstance(pattern, str):
            self.patterns.append(pattern)
        if isinstance(named, dict):
            self.patterns.extend(named)
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(keyword)
            if isinstance(anchor, str):
                self.opaque = self.opaque or anchor in self._anchors
                self._anchors[anchor] = node
        self.opaque = self.opaque or ("$id" in node and node is not self.root)
        self.unevaluated = self.unevaluated or any(keyword in node for keyword in _UNEVALUATED)

    def target(self, reference: str) -> JsonObject | None:
        """The target of a reference, or None if it is not followed here."""
        base, _, fragment = reference.partition("#")
        if base and base != self._id:
            self.opaque = True
            return None
        if not fragment:
            return self.root
        if not fragment.startswith("/"):
            return self._anchors.get(fragment)
        place: JsonValue = self.root
        for escaped in unquote(fragment)[1:].split("/"):
            name = escaped.replace("~1", "/").replace("~0", "~")
            if isinstance(place, dict):
                place = place.get(name)
            elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
                place = place[int(name)]
            else:
                return None
        if isinstance(place, dict) and id(place) not in self.paths:
            self._collect(place)  # a place that no keyword leads to
        return place if isinstance(place, dict) else None

    def in_place(self, node: JsonObject) -> Iterator[JsonObject]:
        """The subschemas that a subschema applies to the same value."""
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str) and (found := self.target(reference)) is not None:
                yield found
        for name in (*_IN_PLACE, *_IN_PLACE_LISTS, *_IN_PLACE_NAMED):
            if name in node:
                yield from (inner for _, inner in _schemas_in(name, node[name]))

    def below(self, node: JsonObject) -> Iterator[tuple[JsonObject, bool]]:
        """The subschemas that a subschema applies to elements of the value, and whether to many of them."""
        for names, many in (
            ((*_ONCE_LISTS, *_ONCE_NAMED), False),
            ((*_REPEATED, *_REPEATED_NAMED), True),
        ):
            for name in names:
                if name in node:
                    yield from ((inner, many) for _, inner in _schemas_in(name, node[name]))

    def problem(self, node: JsonObject, message: str, hint: str) -> TooCostly:
        return TooCostly(message, json_pointer(self.paths[id(node)]), hint)


def _schemas_in(name: str, value: JsonValue) -> Iterator[tuple[tuple[str | int, ...], JsonObject]]:
    """The schemas that a keyword holds, each with its place."""
    if isinstance(value, list):
        if name in (*_IN_PLACE_LISTS, *_ONCE_LISTS, "items"):
            yield from (((name, index), item) for index, item in enumerate(value) if isinstance(item, dict))
    elif not isinstance(value, dict):
        return
    elif name in (*_IN_PLACE, *_REPEATED):
        yield (name,), value
    elif name in (*_IN_PLACE_NAMED, *_ONCE_NAMED, *_REPEATED_NAMED, *_HELD_NAMED):
        yield from (((name, key), item) for key, item in value.items() if isinstance(item, dict))


class _Exceeded(Exception):  # not an error: it carries the result out of the recursion
    def __init__(self, problem: TooCostly) -> None:
        super().__init__()
        self.problem = problem


class _Counter:
    """Counts visits; a schema that refers to itself is expanded once."""

    def __init__(self, parts: _Parts) -> None:
        self._parts = parts
        self._known: dict[int, tuple[int, int]] = {}
        self._under_way: set[int] = set()
        self.recursive = False

    def count(self, node: JsonObject, depth: int) -> tuple[int, int]:
        known = self._known.get(id(node))
        if known is not None:
            return known
        if id(node) in self._under_way:
            self.recursive = True
            return (1, 1)
        if depth > limits.SCHEMA_NESTING_MAX:
            message = f"is nested deeper than {limits.SCHEMA_NESTING_MAX} levels through its references"
            raise _Exceeded(self._parts.problem(node, message, "flatten the references"))
        self._under_way.add(id(node))
        once, each = 0, 0
        for inner in self._parts.in_place(node):
            found = self.count(inner, depth + 1)
            once, each = once + found[0], each + found[1]
        if any(keyword in node for keyword in _UNEVALUATED):
            once, each = 2 * once, 2 * each  # a second pass finds what was not evaluated
        once += _own(node)
        for inner, many in self._parts.below(node):
            found = self.count(inner, depth + 1)
            once, each = (once, each + sum(found)) if many else (once + found[0], each + found[1])
        self._under_way.discard(id(node))
        if once + each > limits.SCHEMA_VISITS_MAX:
            message = (
                f"takes {once + each:,} visits to check, references expanded ({limits.SCHEMA_VISITS_MAX:,} are allowed)"
            )
            hint = "use fewer alternatives over shared references, or split the schema"
            raise _Exceeded(self._parts.problem(node, message, hint))
        self._known[id(node)] = (once, each)
        return once, each


def _own(node: JsonObject) -> int:
    required = node.get("required")
    return 1 + len(node) + (len(required) if isinstance(required, list) else 0)


def _by_depth(parts: _Parts, root: JsonObject) -> tuple[int, ...]:
    """All visits for values of depth 0, 1, 2 …, until the in-process limit is exceeded."""
    if len(parts.nodes) > _PROMPT_PARTS:
        return ()
    found: list[int] = []
    shallower: dict[int, int] = {}
    for _ in range(_PROMPT_DEPTH + 1):
        level: dict[int, int] = {}
        for node in list(parts.nodes):
            _at_depth(parts, node, level, shallower)
        if level[id(root)] > limits.SCHEMA_IN_PROCESS_VISITS_MAX:
            break
        found.append(level[id(root)])
        shallower = level
    return tuple(found)


def _at_depth(parts: _Parts, node: JsonObject, level: dict[int, int], shallower: dict[int, int]) -> int:
    known = level.get(id(node))
    if known is not None:
        return known
    level[id(node)] = 1  # for a reference that leads back here without descending into the value
    total = sum(_at_depth(parts, inner, level, shallower) for inner in parts.in_place(node))
    total *= 2 if any(keyword in node for keyword in _UNEVALUATED) else 1
    total += _own(node) + sum(shallower.get(id(inner), 0) for inner, _ in parts.below(node))
    # Capped, because larger numbers only cost time.
    level[id(node)] = min(total, limits.SCHEMA_IN_PROCESS_VISITS_MAX + 1)
    return level[id(node)]

"""JSON values: their type, JSON pointers, and checks of untrusted values that cannot overflow the stack.

Everything above `base` names JSON through these types. This module neither parses nor writes JSON text:
`definitions.source` reads documents, `definitions.canonical` writes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from penstock.base import limits

__all__ = [
    "JsonObject",
    "JsonProblem",
    "JsonValue",
    "exceeds_depth",
    "exceeds_values",
    "is_flat",
    "json_pointer",
    "json_problem",
    "list_or_empty",
    "object_or_empty",
]

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
JsonObject: TypeAlias = dict[str, JsonValue]

_WHOLE = frozenset({bool, int, str})  # not float, which may be NaN
_FLAT_MEMBERS_MAX = 32
_PLAIN = frozenset({bool, int, float, str, type(None), list, dict})


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonProblem:
    """A part of a value that JSON cannot hold: where (a pointer), and what is wrong with it."""

    path: str
    message: str
    is_depth: bool = False


def object_or_empty(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty object; for documents that may be broken."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def json_pointer(parts: Iterable[str | int]) -> str:
    """Join path parts into an RFC 6901 JSON pointer; no parts give the empty pointer, the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _is_container(value: JsonValue) -> bool:
    return isinstance(value, (list, dict))


def exceeds_depth(value: JsonValue, depth_max: int) -> bool:
    """Return whether arrays and objects nest deeper than `depth_max` levels; a scalar has depth 0.

    Walks level by level, so that a value deep enough to be refused cannot exhaust the interpreter stack.
    """
    if isinstance(value, dict) and not any(map(_is_container, value.values())):
        return depth_max < 1  # flat, like the arguments of nearly every call
    level: list[JsonValue] = [value]
    depth = 0
    while True:
        containers = [item for item in level if isinstance(item, (list, dict))]  # a union is slower
        if not containers:
            return False
        depth += 1
        if depth > depth_max:
            return True
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]


def exceeds_values(value: JsonValue, values_max: int) -> bool:
    """Return whether a value holds more than `values_max` values; stops counting there."""
    waiting = [value] if isinstance(value, (list, dict)) else []
    count = 0
    while waiting:
        item = waiting.pop()
        count += len(item)
        if count > values_max:
            return True
        for child in item.values() if isinstance(item, dict) else item:
            if isinstance(child, (list, dict)):  # a union is slower
                waiting.append(child)  # a generator would be slower
    return False


def is_flat(value: object) -> bool:
    """Return whether a value is a scalar or a small object of scalars, and so certainly JSON. A quick first test."""
    if type(value) is dict:
        if len(value) > _FLAT_MEMBERS_MAX:
            return False
        for name, member in value.items():
            if type(name) is not str:
                return False
            if type(member) is not str and type(member) not in _WHOLE and member is not None:
                return False
        return True
    return type(value) in _WHOLE or value is None


def json_problem(value: object, depth_max: int) -> JsonProblem | None:  # noqa: C901  # one loop, looked at very often
    """Find the first part of a value that JSON cannot hold (a NaN, a set, a non-string key) or that nests too deep.

    For values that may not come from JSON text. Instances of subclasses are refused, because reading them back would
    give a different type.
    """
    level: list[object] = [value]
    for _ in range(depth_max + 1):
        below: list[object] = []
        holds_more = False
        for item in level:
            kind = type(item)
            if kind is str or kind is int or kind is bool or item is None:
                continue
            if type(item) is float:
                if not isfinite(item):
                    return _first_problem(value, depth_max)
            elif type(item) is dict:
                holds_more = True
                for name in item:
                    if type(name) is not str:
                        return _first_problem(value, depth_max)
                below += item.values()
            elif type(item) is list:
                holds_more = True
                below += item
            else:
                return _first_problem(value, depth_max)
        if not holds_more:
            return None
        if len(below) > limits.JSON_VALUES_MAX:
            return JsonProblem(path="", message=f"it has more than {limits.JSON_VALUES_MAX} values", is_depth=True)
        level = below
    return _too_deep(depth_max)


def _first_problem(value: object, depth_max: int) -> JsonProblem:
    """Find where the problem is. Slower, so it is called only for values that have one."""
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if len(path) > depth_max:
            return _too_deep(depth_max)
        kind = type(item)
        if isinstance(item, float) and not isfinite(item):
            return JsonProblem(path=json_pointer(path), message=f"{item!r} is not a number in JSON")
        if kind not in _PLAIN:
            return JsonProblem(path=json_pointer(path), message=f"a value of type {kind.__name__} is not JSON")
        if isinstance(item, dict):
            for odd in (name for name in item if type(name) is not str):
                message = f"the key {odd!r} is of type {type(odd).__name__}; keys are texts in JSON"
                return JsonProblem(path=json_pointer(path), message=message)
            waiting += [((*path, name), child) for name, child in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [((*path, index), child) for index, child in reversed(list(enumerate(item)))]
    raise TypeError("the value is valid JSON")


def _too_deep(depth_max: int) -> JsonProblem:
    return JsonProblem(path="", message=f"it nests deeper than {depth_max} levels", is_depth=True)

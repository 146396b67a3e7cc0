"""JSON values: their type, JSON pointers, and a depth check that cannot overflow the stack.

Everything above `base` names JSON through these types. This module neither parses nor
writes JSON text: `definitions.source` reads documents, `definitions.canonical` writes them.
"""

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["JsonObject", "JsonValue", "exceeds_depth", "json_pointer"]

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
JsonObject: TypeAlias = dict[str, JsonValue]


def json_pointer(parts: Iterable[str | int]) -> str:
    """Join path parts into an RFC 6901 JSON pointer; no parts give the empty pointer, the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def exceeds_depth(value: JsonValue, depth_max: int) -> bool:
    """Say whether arrays and objects nest deeper than `depth_max` levels; a scalar has depth 0.

    Walks level by level, so that a value deep enough to be refused cannot exhaust the interpreter stack.
    """
    level: list[JsonValue] = [value]
    depth = 0
    while True:
        containers = [item for item in level if isinstance(item, list | dict)]
        if not containers:
            return False
        depth += 1
        if depth > depth_max:
            return True
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]

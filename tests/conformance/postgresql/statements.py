"""Statements as PostgreSQL takes them: values are numbered (`$1`), where ours have `?` or `:name`.

Above it: `transaction`. Below it: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from penstock.runtime.ports.transactions import Values

__all__ = ["arguments", "numbered"]

# Listings put their conditions together, so there are more statements than functions.
_KNOWN_MAX = 4_096
_TEXT_OR_PLACE = re.compile(r"'(?:[^']|'')*'|\?|(?<!:):[a-z_]+")


@lru_cache(_KNOWN_MAX)
def numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbered values, and the names of the values if they have names."""
    names: list[str] = []
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        place = found[0]
        if place.startswith("'"):
            return place
        if place == "?":
            count += 1
            return f"${count}"
        if place[1:] not in names:
            names.append(place[1:])
        return f"${names.index(place[1:]) + 1}"

    return _TEXT_OR_PLACE.sub(number, statement).encode(), tuple(names)


def arguments(names: tuple[str, ...], values: Values) -> list[object]:
    """Return values in the order of their numbers."""
    return [values[name] for name in names] if isinstance(values, Mapping) else [*values]

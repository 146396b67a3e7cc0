"""Comparing and showing the values of a document: equal by JSON's rules, short enough for a sentence.

Above it: the parts of `diff`. Below it: plain JSON values.
"""

from __future__ import annotations

import json

from penstock.base.json import JsonValue

__all__ = ["alike", "brief"]

_BRIEF_CHARACTERS_MAX = 48


def alike(first: JsonValue, second: JsonValue) -> bool:
    """Whether two values are the same in JSON: `true` is not 1, but 1 is 1.0, and the order of members is nothing."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(alike(value, second[key]) for key, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    return first == second


def brief(value: JsonValue) -> str:
    """A value in a few words, as code."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text.split())
    shown = line if len(line) <= _BRIEF_CHARACTERS_MAX else line[: _BRIEF_CHARACTERS_MAX - 1].rstrip() + "…"
    return f"`{shown}`"

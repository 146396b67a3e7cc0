"""Compares and shows the values of a document: equal by JSON's rules, short enough for a sentence.

Above it: the parts of `compare`. Below it: `model`, and `base.text` for clean lines.
"""

from __future__ import annotations

import json

from penstock.base.json import JsonValue
from penstock.base.text import clean
from penstock.definitions.diff.model import Change, ChangeKind, Subject
from penstock.definitions.node_parts.changes import Effect

__all__ = ["alike", "brief", "change_of", "kind_of"]

_BRIEF_CHARACTERS_MAX = 48


def alike(first: JsonValue, second: JsonValue) -> bool:
    """Whether two values are equal in JSON: `true` is not 1, but 1 is 1.0, and the order of members does not matter."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(alike(value, second[key]) for key, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    return first == second


def brief(value: JsonValue) -> str:
    """Format a value briefly, as code; None becomes "nothing"."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Sentences are shown on terminals, where control characters take effect.
    line = clean(text)
    shown = line if len(line) <= _BRIEF_CHARACTERS_MAX else line[: _BRIEF_CHARACTERS_MAX - 1].rstrip() + "…"
    return f"`{shown}`"


def kind_of(before: JsonValue, after: JsonValue) -> ChangeKind:
    """Whether something was added, removed or changed, where None stands for nothing."""
    if before is None:
        return ChangeKind.ADDED
    return ChangeKind.REMOVED if after is None else ChangeKind.CHANGED


def change_of(subject: Subject, path: str, message: str, values: tuple[JsonValue, JsonValue], effect: Effect) -> Change:
    """Make a change whose kind follows from its two values."""
    before, after = values
    return Change(
        kind=kind_of(before, after),
        subject=subject,
        path=path,
        message=message,
        before=before,
        after=after,
        breaking=effect.breaking,
        in_flight=effect.in_flight,
        reason=effect.reason,
    )

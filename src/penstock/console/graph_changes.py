"""The differences between two versions of a graph, as rows for people: one per changed property.

Above it: the pages of approvals and graphs. Below it: how values are shown.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.console.rendering import short_value

__all__ = ["ChangeRow", "change_rows"]

_ENDS = ("from", "to")


class ChangeRow(NamedTuple):
    """A node or an edge that differs, and its properties that do."""

    kind: str
    type_name: str
    entity_id: str
    fields: list[tuple[str, str | None, str | None]]
    """The name of a property, its text before, and its text after; None where it had no value."""


def change_rows(changes: object) -> list[ChangeRow] | None:
    """Return changes as rows; None if the value does not describe changes of a graph."""
    if not isinstance(changes, list) or not all(isinstance(item, dict) and "entity_id" in item for item in changes):
        return None
    return [_row(item) for item in changes]


def _row(change: dict[str, Any]) -> ChangeRow:
    before, after = _members(change["before"]), _members(change["after"])
    names = dict.fromkeys((*before, *after))
    fields = [(name, _text(before, name), _text(after, name)) for name in names if before.get(name) != after.get(name)]
    return ChangeRow(str(change["kind"]), str(change["type_name"]), str(change["entity_id"]), fields)


def _members(record: object) -> dict[str, Any]:
    """Return the properties of a record of a load; of an edge its ends, too."""
    if not isinstance(record, dict):
        return {}
    data = record.get("data")
    ends = {name: record[name] for name in _ENDS if name in record}
    return {**ends, **(data if isinstance(data, dict) else {})}


def _text(members: dict[str, Any], name: str) -> str | None:
    return short_value(members[name]) if name in members else None

"""The columns with who is behind a key: the step that adds them derives it from who made and who replaced the keys.

A key that replaced another stands for the subject of that. A key that was made with a key or a token stands for the
subject of its maker, as a new one does unless somebody says otherwise. Every other key stands for itself. Quotas that
were set for a key that replaced others are kept under the name of the first of these.

Above it: `migrations`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from penstock.base.encoding import encode_bytes

__all__ = ["add_subjects"]

_COLUMNS = (
    "ALTER TABLE api_keys ADD COLUMN subject TEXT",
    "ALTER TABLE api_keys ADD COLUMN lineage TEXT NOT NULL DEFAULT '[]'",
    "ALTER TABLE api_keys ADD COLUMN first_key TEXT",
)
_UPDATE = "UPDATE api_keys SET subject = ?, lineage = ?, first_key = ? WHERE key_id = ?"
_KEY = "key:"
_INHERITED = (_KEY, "token:", "pipe:")


@dataclass(frozen=True, slots=True)
class _Behind:
    """Who is behind a key."""

    subject: str
    lineage: tuple[str, ...]
    first_key: str


@dataclass(slots=True)
class _Keys:
    """The keys of a file, by id: who made each, and which it replaced."""

    made: dict[str, tuple[str | None, str | None]]
    known: dict[str, _Behind] = field(default_factory=dict)

    def behind(self, key_id: str) -> _Behind:
        """Return who is behind a key. Those before it are found first, without recursion: chains may be long."""
        waiting = [key_id]
        while waiting:
            now = waiting[-1]
            maker, replaced = self.made[now]
            before = (replaced or "", (maker or "").removeprefix(_KEY))
            missing = [name for name in before if name in self.made and name not in self.known and name not in waiting]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            self.known[now] = self._derived(now, maker, self.known.get(replaced or ""))
        return self.known[key_id]

    def _derived(self, key_id: str, maker: str | None, replaced: _Behind | None) -> _Behind:
        own = f"{_KEY}{key_id}"
        by = None if maker is None else self.known.get(maker.removeprefix(_KEY))
        maker_subject = maker if by is None else by.subject
        inherits = maker_subject is not None and maker is not None and maker.startswith(_INHERITED)
        subject = replaced.subject if replaced is not None else maker_subject if inherits else own
        lineage = dict.fromkeys(
            name
            for name in (
                *(() if replaced is None else replaced.lineage),
                maker_subject,
                *(() if by is None else by.lineage),
            )
            if name is not None and name != subject
        )
        return _Behind(subject or own, tuple(lineage), key_id if replaced is None else replaced.first_key)


def add_subjects(connection: sqlite3.Connection) -> None:
    """Add the columns, and what the keys of the file say."""
    for statement in _COLUMNS:
        connection.execute(statement)
    rows = connection.execute("SELECT key_id, created_by, replaces FROM api_keys").fetchall()
    keys = _Keys({key_id: (maker, replaced) for key_id, maker, replaced in rows})
    for key_id, _, _ in rows:
        found = keys.behind(key_id)
        subject = None if found.subject == f"{_KEY}{key_id}" else found.subject
        first = None if found.first_key == key_id else found.first_key
        lineage = encode_bytes(found.lineage).decode()
        connection.execute(_UPDATE, (subject, lineage, first, key_id))
        if first is not None:
            _rename_quota(connection, f"{_KEY}{key_id}", f"{_KEY}{first}")


def _rename_quota(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Keep the quotas of a key under the name of the first key before it; the latest that was set holds."""
    found = connection.execute(
        "SELECT tenant, updated_at FROM resources WHERE kind = 'quota' AND resource_id = ?", (old,)
    ).fetchall()
    for tenant, updated_at in found:
        place = (tenant, new)
        connection.execute(
            "DELETE FROM resources WHERE kind = 'quota' AND tenant = ? AND resource_id = ? AND updated_at <= ?",
            (*place, updated_at),
        )
        connection.execute(
            "UPDATE OR IGNORE resources SET resource_id = ? WHERE kind = 'quota' AND tenant = ? AND resource_id = ?",
            (new, tenant, old),
        )

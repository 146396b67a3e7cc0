"""Numbers of topics in the SQLite file: see `ports.topics`. Triggers count, so that no writer can forget to.

Above it: `migrations`, `database`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from penstock.runtime.ports.topics import TOPIC_OF_KIND, Topic

__all__ = ["read_numbers", "topic_statements"]

_TABLE = "CREATE TABLE topics (topic TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID"
_COUNT = "ON CONFLICT (topic) DO UPDATE SET number = topics.number + 1"
# Every column but `last_used_at`: the use of a key changes nothing that anybody caches.
_KEY_COLUMNS = (
    "tenant, name, secret_hash, scopes, created_at, created_by, expires_at, revoked_at, replaces, toolset, kind,"
    " groups, subject, lineage, first_key"
)


def topic_statements() -> Iterator[str]:
    """Return what makes the table of topics, and the triggers that count."""
    yield _TABLE
    for action in ("INSERT", "DELETE", f"UPDATE OF {_KEY_COLUMNS}"):
        name = action.split()[0].lower()
        yield (
            f"CREATE TRIGGER api_keys_{name} AFTER {action} ON api_keys BEGIN"
            f" INSERT INTO topics (topic, number) VALUES ('{Topic.KEYS}', 1) {_COUNT}; END"
        )
    kinds = ", ".join(f"'{kind}'" for kind in sorted(TOPIC_OF_KIND))
    cases = " ".join(f"WHEN '{kind}' THEN '{topic}'" for kind, topic in sorted(TOPIC_OF_KIND.items()))
    for action, row in (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "NEW")):
        yield (
            f"CREATE TRIGGER resources_{action.lower()} AFTER {action} ON resources WHEN {row}.kind IN ({kinds}) BEGIN"
            f" INSERT INTO topics (topic, number) VALUES (CASE {row}.kind {cases} END, 1) {_COUNT}; END"
        )


def read_numbers(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of every topic that was ever changed."""
    return dict(connection.execute("SELECT topic, number FROM topics").fetchall())

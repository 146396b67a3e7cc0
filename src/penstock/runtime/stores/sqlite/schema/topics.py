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
    yield from _triggers("api_keys", _KEY_COLUMNS, f"'{Topic.KEYS}'")
    yield from _triggers("workflows", "hash, number", f"'{Topic.DEFINITIONS}'")
    yield from _triggers("graphs", "schema_version, oldest_schema, deleted", f"'{Topic.GRAPHS}'")
    kinds = " ".join(f"WHEN '{kind}' THEN '{topic}'" for kind, topic in sorted(TOPIC_OF_KIND.items()))
    yield from _triggers("resources", "", f"CASE ROW.kind {kinds} ELSE '{Topic.REGISTERED}' END")


def _triggers(table: str, columns: str, topic: str) -> Iterator[str]:
    """Yield a trigger for each way to change a table. An update counts if it sets one of `columns` (empty: any).

    `topic` is an expression, in which `ROW` stands for the row.
    """
    for action, row in (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "NEW")):
        chosen = f"{action} OF {columns}" if columns and action == "UPDATE" else action
        yield (
            f"CREATE TRIGGER {table}_{action.lower()} AFTER {chosen} ON {table} BEGIN"
            f" INSERT INTO topics (topic, number) VALUES ({topic.replace('ROW.', f'{row}.')}, 1) {_COUNT}; END"
        )


def read_numbers(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of every topic that was ever changed."""
    return dict(connection.execute("SELECT topic, number FROM topics").fetchall())

"""API keys in the SQLite file.

All functions take a connection. Those that write run inside a transaction of the file's only writer. No other process
can write during it, so what they read cannot change before they finish.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from penstock.runtime.ports.platform import KeyNotReplaced, KeyPage, KeyReplaced, KeyRow
from penstock.runtime.stores.rules.listings import cut_page, key_cursor, key_position, platform_page_size
from penstock.runtime.stores.rules.writes import key_conflict
from penstock.runtime.stores.sqlite.codec import RowCodec, encode_json, json_column

__all__ = [
    "put_key",
    "read_key",
    "read_keys",
    "replace_key",
    "touch_keys",
]

_KEYS = RowCodec(
    "api_keys",
    KeyRow,
    scopes=json_column(tuple[str, ...]),
    groups=json_column(tuple[str, ...]),
    lineage=json_column(tuple[str, ...]),
)
# A caller that read the key before it was revoked must not undo the revocation by writing it back.
_PUT_KEY = (
    f"INSERT INTO api_keys {_KEYS.insert} ON CONFLICT (key_id) DO UPDATE SET"
    " tenant = excluded.tenant, name = excluded.name, secret_hash = excluded.secret_hash, scopes = excluded.scopes,"
    " created_at = excluded.created_at, created_by = excluded.created_by, expires_at = excluded.expires_at,"
    " revoked_at = coalesce(revoked_at, excluded.revoked_at),"
    " last_used_at = coalesce(max(last_used_at, excluded.last_used_at), last_used_at, excluded.last_used_at),"
    " replaces = excluded.replaces, toolset = excluded.toolset, kind = excluded.kind,"
    " groups = excluded.groups, subject = excluded.subject, lineage = excluded.lineage, first_key = excluded.first_key,"
    " checksum = excluded.checksum"
)
_READ_KEY = f"SELECT {_KEYS.columns} FROM api_keys WHERE key_id = ?"
_TOUCH_KEY = (
    "UPDATE api_keys SET last_used_at = :at WHERE key_id = :key AND (last_used_at IS NULL OR last_used_at < :at)"
)
_READ_SUCCESSOR = "SELECT key_id FROM api_keys WHERE tenant = ? AND replaces = ? ORDER BY created_at, key_id LIMIT 1"


def put_key(connection: sqlite3.Connection, key: KeyRow) -> None:
    """Store a key, or update the key with the same id."""
    listed = {"scopes": key.scopes, "groups": key.groups, "lineage": key.lineage}
    encoded = {name: encode_json(values).decode() for name, values in listed.items()}
    connection.execute(_PUT_KEY, _KEYS.values(key, **encoded))


def replace_key(connection: sqlite3.Connection, ended: KeyRow, successor: KeyRow) -> KeyReplaced | KeyNotReplaced:
    """Store a successor and end the key that it replaces, unless that key has ended or already has a successor."""
    successors = [key_id for (key_id,) in connection.execute(_READ_SUCCESSOR, (ended.tenant, ended.key_id)).fetchall()]
    conflict = key_conflict(read_key(connection, ended.key_id), successors)
    if conflict is not None:
        return conflict
    put_key(connection, successor)
    put_key(connection, ended)
    return KeyReplaced()


def read_key(connection: sqlite3.Connection, key_id: str) -> KeyRow | None:
    """A key by id."""
    # Fetch the whole result: an unfinished statement would keep this snapshot of the file open.
    found = connection.execute(_READ_KEY, (key_id,)).fetchall()
    return _KEYS.row(found[0]) if found else None


def read_keys(
    connection: sqlite3.Connection,
    *,
    tenant: str | None,
    limit: int,
    cursor: str | None,
    ids: Collection[str] | None = None,
) -> KeyPage:
    """A page of keys, newest first; with `ids`, only those."""
    size, before = platform_page_size(limit), key_position(cursor)
    conditions = ["1"]
    parameters: list[object] = []
    if tenant is not None:
        conditions.append("tenant = ?")
        parameters.append(tenant)
    if ids is not None:
        conditions.append("key_id IN (SELECT value FROM json_each(?))")
        parameters.append(encode_json([*ids]).decode())
    if before is not None:
        conditions.append("(created_at, key_id) < (?, ?)")
        parameters += before
    statement = (
        f"SELECT {_KEYS.columns} FROM api_keys WHERE {' AND '.join(conditions)}"
        " ORDER BY created_at DESC, key_id DESC LIMIT ?"
    )
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    page, next_cursor = cut_page(
        [_KEYS.row(columns) for columns in found], size, lambda key: key_cursor(key.created_at, key.key_id)
    )
    return KeyPage(tuple(page), next_cursor)


def touch_keys(connection: sqlite3.Connection, used_at: Mapping[str, int]) -> None:
    """Record when keys were last used."""
    connection.executemany(_TOUCH_KEY, [{"key": key_id, "at": moment} for key_id, moment in used_at.items()])

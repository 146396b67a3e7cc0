"""API keys in the SQLite file: what every request asks for.

Functions of a connection. Those that write run inside a transaction of the file's one writer, which no other process
can share: what they look at cannot change before they are done.

Above it: `platform_store`. Below it: `columns`, sqlite3; the tables are in `format.platform_tables`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.runtime.ports.platform import KeyNotReplaced, KeyPage, KeyReplaced, KeyRow
from penstock.runtime.stores.rules.platform import key_cursor, key_position, rows_wanted
from penstock.runtime.stores.sqlite.columns import decode_json, encode_json

__all__ = [
    "put_key",
    "read_key",
    "read_keys",
    "replace_key",
    "touch_keys",
]

_KEY_COLUMNS = (
    "key_id, tenant, name, secret_hash, scopes, created_at, created_by, expires_at, revoked_at, last_used_at, replaces,"
    " toolset"
)
# What somebody read before a revocation, and writes after it, must not undo it.
_PUT_KEY = (
    f"INSERT INTO api_keys ({_KEY_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (key_id) DO UPDATE SET"
    " tenant = excluded.tenant, name = excluded.name, secret_hash = excluded.secret_hash, scopes = excluded.scopes,"
    " created_at = excluded.created_at, created_by = excluded.created_by, expires_at = excluded.expires_at,"
    " revoked_at = coalesce(revoked_at, excluded.revoked_at),"
    " last_used_at = coalesce(max(last_used_at, excluded.last_used_at), last_used_at, excluded.last_used_at),"
    " replaces = excluded.replaces, toolset = excluded.toolset"
)
_READ_KEY = f"SELECT {_KEY_COLUMNS} FROM api_keys WHERE key_id = ?"
_TOUCH_KEY = (
    "UPDATE api_keys SET last_used_at = :at WHERE key_id = :key AND (last_used_at IS NULL OR last_used_at < :at)"
)
_READ_SUCCESSOR = "SELECT key_id FROM api_keys WHERE tenant = ? AND replaces = ? ORDER BY created_at, key_id LIMIT 1"

_SCOPES = msgspec.json.Decoder(tuple[str, ...])


def put_key(connection: sqlite3.Connection, key: KeyRow) -> None:
    """Keep a key, or change the one of that id."""
    columns = (
        key.key_id,
        key.tenant,
        key.name,
        key.secret_hash,
        encode_json(key.scopes).decode(),
        key.created_at,
        key.created_by,
        key.expires_at,
        key.revoked_at,
        key.last_used_at,
        key.replaces,
        key.toolset,
    )
    connection.execute(_PUT_KEY, columns)


def replace_key(connection: sqlite3.Connection, ended: KeyRow, successor: KeyRow) -> KeyReplaced | KeyNotReplaced:
    """Keep a successor and end the key that it replaces, unless that has ended or has a successor."""
    found = connection.execute(_READ_SUCCESSOR, (ended.tenant, ended.key_id)).fetchall()
    current = read_key(connection, ended.key_id)
    if found or current is None or current.revoked_at is not None:
        return KeyNotReplaced(found[0][0] if found else None)
    put_key(connection, successor)
    put_key(connection, ended)
    return KeyReplaced()


def read_key(connection: sqlite3.Connection, key_id: str) -> KeyRow | None:
    """A key by id."""
    # To the end of the result: a statement that is not finished would go on looking at this moment of the file.
    found = connection.execute(_READ_KEY, (key_id,)).fetchall()
    return _key_of(found[0]) if found else None


def read_keys(connection: sqlite3.Connection, *, tenant: str | None, limit: int, cursor: str | None) -> KeyPage:
    """A page of keys, newest first."""
    size, before = rows_wanted(limit), key_position(cursor)
    conditions = ["1"]
    parameters: list[object] = []
    if tenant is not None:
        conditions.append("tenant = ?")
        parameters.append(tenant)
    if before is not None:
        conditions.append("(created_at, key_id) < (?, ?)")
        parameters += before
    statement = (
        f"SELECT {_KEY_COLUMNS} FROM api_keys WHERE {' AND '.join(conditions)}"
        " ORDER BY created_at DESC, key_id DESC LIMIT ?"
    )
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    rows = tuple(_key_of(columns) for columns in found[:size])
    return KeyPage(rows, key_cursor(rows[-1].created_at, rows[-1].key_id) if len(found) > size else None)


def touch_keys(connection: sqlite3.Connection, used_at: Mapping[str, int]) -> None:
    """Note when keys were last used."""
    connection.executemany(_TOUCH_KEY, [{"key": key_id, "at": moment} for key_id, moment in used_at.items()])


def _key_of(columns: Sequence[Any]) -> KeyRow:
    return KeyRow(
        key_id=columns[0],
        tenant=columns[1],
        name=columns[2],
        secret_hash=columns[3],
        scopes=decode_json(_SCOPES, columns[4]),
        created_at=columns[5],
        created_by=columns[6],
        expires_at=columns[7],
        revoked_at=columns[8],
        last_used_at=columns[9],
        replaces=columns[10],
        toolset=columns[11],
    )

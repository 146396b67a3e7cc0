"""API keys and idempotent calls in the SQLite file: what every request asks for.

Functions of a connection. Those that write run inside a transaction of the file's one writer, which no other process
can share: what they look at cannot change before they are done.

Above it: `sqlite_platform`. Below it: `sqlite_rows`, sqlite3; the tables are in `sqlite_platform_tables`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.base.json import JsonObject
from penstock.runtime.platform import Claimed, ClaimOutcome, Finished, IdempotencyClaim, InFlight, KeyPage, KeyRow
from penstock.runtime.stores.platform_rules import key_cursor, key_position, rows_wanted
from penstock.runtime.stores.sqlite_rows import decode_json, encode_json

__all__ = [
    "claim_call",
    "complete_call",
    "forget_calls",
    "put_key",
    "read_key",
    "read_keys",
    "release_call",
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

_NAMED = "tenant = :tenant AND principal = :principal AND operation = :operation AND key = :key"
_INSERT_CALL = (
    "INSERT INTO calls (tenant, principal, operation, key, digest, until, answer)"
    " VALUES (:tenant, :principal, :operation, :key, :digest, :until, :answer)"
    " ON CONFLICT (tenant, principal, operation, key) DO UPDATE SET"
    " digest = excluded.digest, until = excluded.until, answer = excluded.answer"
)
_OWN = "answer IS NULL AND until = :own"
_CLAIM_CALL = f"{_INSERT_CALL} WHERE until < :now RETURNING 1"
_COMPLETE_CALL = f"{_INSERT_CALL} WHERE {_OWN}"
_READ_CALL = f"SELECT digest, until, answer FROM calls WHERE {_NAMED}"
_RELEASE_CALL = f"DELETE FROM calls WHERE {_NAMED} AND {_OWN}"
_FORGET_CALLS = "DELETE FROM calls WHERE rowid IN (SELECT rowid FROM calls WHERE until < ? ORDER BY until LIMIT ?)"

_SCOPES = msgspec.json.Decoder(tuple[str, ...])
_ANSWER = msgspec.json.Decoder(dict[str, Any])


# --- keys ----------------------------------------------------------------------------------------


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


# --- calls ---------------------------------------------------------------------------------------
# Without an answer a call is in flight until a moment; with one, the answer is kept until a moment.


def claim_call(connection: sqlite3.Connection, claim: IdempotencyClaim) -> ClaimOutcome:
    """Be the one call with a key, or learn what became of the other."""
    names = _names_of(claim)
    given = {**names, "digest": claim.digest, "until": claim.in_flight_until, "answer": None, "now": claim.now}
    if connection.execute(_CLAIM_CALL, given).fetchall():
        return Claimed()
    ((digest, until, answer),) = connection.execute(_READ_CALL, names).fetchall()
    return InFlight(digest, until) if answer is None else Finished(digest, decode_json(_ANSWER, answer))


def complete_call(connection: sqlite3.Connection, claim: IdempotencyClaim, answer: bytes) -> None:
    """Keep the answer to a call, unless the claim was lost to another one."""
    given = {"digest": claim.digest, "until": claim.keep_until, "answer": answer, "own": claim.in_flight_until}
    connection.execute(_COMPLETE_CALL, {**_names_of(claim), **given})


def release_call(connection: sqlite3.Connection, claim: IdempotencyClaim) -> None:
    """Let the key of a call go, unless another one has it by now."""
    connection.execute(_RELEASE_CALL, {**_names_of(claim), "own": claim.in_flight_until})


def forget_calls(connection: sqlite3.Connection, *, now: int, limit: int) -> int:
    """Drop what is past its time."""
    return connection.execute(_FORGET_CALLS, (now, limit)).rowcount


def _names_of(claim: IdempotencyClaim) -> JsonObject:
    return {
        "tenant": claim.tenant,
        "principal": claim.principal,
        "operation": claim.operation,
        "key": claim.key,
    }

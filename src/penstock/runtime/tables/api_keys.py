"""API keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord, KeyNotReplaced, KeyPage, KeyReplaced, KeyRow
from penstock.runtime.ports.transactions import Transaction, any_of
from penstock.runtime.tables.codec import RowCodec, encode_json, json_column
from penstock.runtime.tables.listings import cut_page, key_cursor, key_position, platform_page_size
from penstock.runtime.tables.outcomes import is_text, key_conflict

__all__ = ["list_keys", "put_key", "read_key", "replace_key", "touch_keys", "write_revocations"]

_KEYS = RowCodec(
    "api_keys",
    KeyRow,
    scopes=json_column(tuple[str, ...]),
    groups=json_column(tuple[str, ...]),
    lineage=json_column(tuple[str, ...]),
)
# A caller that read the key before it was revoked must not undo the revocation by writing it back.
_PUT = (
    f"INSERT INTO api_keys {_KEYS.insert} ON CONFLICT (key_id) DO UPDATE SET"
    " tenant = excluded.tenant, name = excluded.name, secret_hash = excluded.secret_hash, scopes = excluded.scopes,"
    " created_at = excluded.created_at, created_by = excluded.created_by, expires_at = excluded.expires_at,"
    " revoked_at = coalesce(api_keys.revoked_at, excluded.revoked_at),"
    " last_used_at = CASE WHEN api_keys.last_used_at > coalesce(excluded.last_used_at, 0) THEN api_keys.last_used_at"
    " ELSE coalesce(excluded.last_used_at, api_keys.last_used_at) END,"
    " replaces = excluded.replaces, toolset = excluded.toolset, kind = excluded.kind,"
    " groups = excluded.groups, subject = excluded.subject, lineage = excluded.lineage, first_key = excluded.first_key,"
    " checksum = excluded.checksum"
)
_READ = f"SELECT {_KEYS.columns} FROM api_keys WHERE key_id = ?"
_TOUCH = "UPDATE api_keys SET last_used_at = ? WHERE key_id = ? AND coalesce(last_used_at, -1) < ?"
_SUCCESSORS = "SELECT key_id FROM api_keys WHERE tenant = ? AND replaces = ? ORDER BY created_at, key_id LIMIT 1"
# A principal that is a key is called `key:ID`.
_MADE_BY = (
    "WITH RECURSIVE made (key_id) AS ("
    "SELECT key_id FROM api_keys WHERE tenant = :tenant AND created_by = :maker"
    " UNION SELECT later.key_id FROM api_keys AS later JOIN made ON later.created_by = 'key:' || made.key_id"
    " WHERE later.tenant = :tenant)"
    " SELECT key_id FROM api_keys WHERE revoked_at IS NULL AND key_id IN (SELECT key_id FROM made) ORDER BY key_id"
)
_REVOKE = "UPDATE api_keys SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL"


async def put_key(database: Database, key: KeyRow, *, call: CallRecord | None = None) -> None:
    """Store a key, or change the one with that id.

    Writing a stale row undoes neither a revocation nor a later use: `revoked_at` stays once it is set, and
    `last_used_at` never goes back.
    """
    values = _values_of(key)

    def change(transaction: Transaction) -> None:
        _lock_keys(transaction, key.key_id, key.replaces)
        transaction.execute(_PUT, values)

    await database.write(change, call=call)


async def replace_key(
    database: Database, ended: KeyRow, successor: KeyRow, *, call: CallRecord | None = None
) -> KeyReplaced | KeyNotReplaced:
    """Store a successor and end the key that it replaces, both or neither.

    Of several concurrent calls, one succeeds. Not if the old key is revoked by then, or already has a successor.
    """
    ended_values, successor_values = _values_of(ended), _values_of(successor)

    def change(transaction: Transaction) -> KeyReplaced | KeyNotReplaced:
        _lock_keys(transaction, ended.key_id, successor.key_id)
        successors = [key_id for (key_id,) in transaction.rows(_SUCCESSORS, (ended.tenant, ended.key_id))]
        found = transaction.one(_READ, (ended.key_id,))
        conflict = key_conflict(None if found is None else _KEYS.row(found), successors)
        if conflict is not None:
            return conflict
        transaction.execute(_PUT, successor_values)
        transaction.execute(_PUT, ended_values)
        return KeyReplaced()

    return await database.write(change, call=call)


def write_revocations(transaction: Transaction, tenant: str, maker: str, at: int) -> list[str]:
    """Revoke the keys that a principal made, and those that were made with them. Return the ids of those that ended."""
    made = {"tenant": tenant, "maker": maker}
    for (key_id,) in transaction.rows(_MADE_BY, made):
        transaction.lock(f"key/{key_id}")
    ended = [str(key_id) for (key_id,) in transaction.rows(_MADE_BY, made)]  # with successors that were just made
    transaction.many(_REVOKE, [(at, key_id) for key_id in ended])
    return ended


async def read_key(database: Database, key_id: str) -> KeyRow | None:
    """Return a key by id, as it is now: a change by any process shows at once."""
    if not is_text(key_id):
        return None
    found = await database.one(_READ, (key_id,))
    return None if found is None else _KEYS.row(found)


async def list_keys(
    database: Database, *, tenant: str | None, limit: int, cursor: str | None = None, ids: Collection[str] | None = None
) -> KeyPage:
    """Return keys of a tenant (None: of all), newest first; with `ids`, only those that have one of them."""
    size, before = platform_page_size(limit), key_position(cursor)
    conditions = ["1 = 1"]
    values: list[object] = []
    if tenant is not None:
        conditions.append("tenant = ?")
        values.append(tenant)
    if ids is not None:
        conditions.append(any_of("key_id", [*ids]))
        values += ids
    if before is not None:
        conditions.append("(created_at, key_id) < (?, ?)")
        values += before
    statement = (
        f"SELECT {_KEYS.columns} FROM api_keys WHERE {' AND '.join(conditions)}"
        " ORDER BY created_at DESC, key_id DESC LIMIT ?"
    )
    found = await database.rows(statement, (*values, size + 1))
    page, next_cursor = cut_page(
        [_KEYS.row(columns) for columns in found], size, lambda key: key_cursor(key.created_at, key.key_id)
    )
    return KeyPage(tuple(page), next_cursor)


async def touch_keys(database: Database, used_at: Mapping[str, int]) -> None:
    """Note when keys were last used; unknown ids are ignored, and earlier times change nothing."""
    given = [(at, key_id, at) for key_id, at in sorted(used_at.items())]
    if given:
        await database.write(lambda transaction: transaction.many(_TOUCH, given))


def _lock_keys(transaction: Transaction, *key_ids: str | None) -> None:
    """Hold a key, and the one that it replaces: who replaces a key looks for others that do."""
    for key_id in sorted({key_id for key_id in key_ids if key_id is not None}):
        transaction.lock(f"key/{key_id}")


def _values_of(key: KeyRow) -> list[object]:
    listed = {"scopes": key.scopes, "groups": key.groups, "lineage": key.lineage}
    return _KEYS.values(key, **{name: encode_json(values).decode() for name, values in listed.items()})

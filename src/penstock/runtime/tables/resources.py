"""What tenants register, by kind (schemas, models, tools, agents, webhooks, policies), and small values under names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from penstock.base.json import JsonValue
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import (
    ANY_ETAG,
    CallRecord,
    ResourceChanged,
    ResourceDeleted,
    ResourcePage,
    ResourcePut,
    ResourceRow,
)
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.tables.checksums import row_checksum
from penstock.runtime.tables.codec import (
    RowCodec,
    author_column,
    author_of_column,
    decode_json,
    encode_json,
    json_column,
)
from penstock.runtime.tables.listings import cut_page, id_cursor, id_position, platform_page_size
from penstock.runtime.tables.outcomes import resource_conflict

__all__ = [
    "delete_resource",
    "drop_mark",
    "list_all_resources",
    "list_resources",
    "put_resource",
    "put_resources",
    "read_mark",
    "read_resource",
    "set_mark",
    "stored_mark",
    "write_deletion",
    "write_mark",
    "write_resource",
]

_RESOURCES = RowCodec("resources", ResourceRow, body=json_column(dict[str, Any]), author=author_of_column)
_COLUMNS = _RESOURCES.columns
_NAMED = "kind = ? AND tenant = ? AND resource_id = ?"
_PUT = (
    f"INSERT INTO resources {_RESOURCES.insert} ON CONFLICT (kind, tenant, resource_id) DO UPDATE SET"
    " body = excluded.body, etag = excluded.etag, updated_at = excluded.updated_at, updated_by = excluded.updated_by,"
    " author = excluded.author, checksum = excluded.checksum"
)
_SET_MARK = (
    "INSERT INTO marks (name, value, checksum) VALUES (?,?,?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
)
_MARK = "SELECT value FROM marks WHERE name = ?"
# A transaction with more rows than this leaves the event loop alone.
_ROWS_AT_ONCE_MAX = 100

_VALUE: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()


async def put_resource(
    database: Database, resource: ResourceRow, *, expected_etag: str | None, call: CallRecord | None = None
) -> ResourcePut | ResourceChanged:
    """Store a resource if its etag is the expected one: `ANY_ETAG` for any or none, None for none.

    `created_at` keeps its value from when the resource was first stored.
    """
    values = _values_of(resource)
    return await database.write(
        lambda transaction: _write_version(transaction, resource, values, expected_etag), call=call
    )


async def put_resources(
    database: Database, resources: Sequence[ResourceRow], *, call: CallRecord | None = None
) -> None:
    """Store resources, replacing existing ones: all of them, or none."""
    given = [_values_of(resource) for resource in resources]
    names = sorted({_lock_name(resource.tenant, resource.kind, resource.resource_id) for resource in resources})

    def change(transaction: Transaction) -> None:
        for name in names:
            transaction.lock(name)
        transaction.many(_PUT, given)

    await database.write(change, call=call, is_long=len(given) > _ROWS_AT_ONCE_MAX)


async def delete_resource(
    database: Database,
    tenant: str,
    kind: str,
    resource_id: str,
    *,
    expected_etag: str,
    call: CallRecord | None = None,
) -> ResourceDeleted | ResourceChanged:
    """Delete a resource if its etag is the expected one (`ANY_ETAG` for any)."""
    return await database.write(
        lambda transaction: write_deletion(transaction, tenant, kind, resource_id, expected_etag), call=call
    )


def write_resource(
    transaction: Transaction, resource: ResourceRow, expected_etag: str | None
) -> ResourcePut | ResourceChanged:
    """Do what `put_resource` does, in a transaction."""
    return _write_version(transaction, resource, _values_of(resource), expected_etag)


def write_deletion(
    transaction: Transaction, tenant: str, kind: str, resource_id: str, expected_etag: str
) -> ResourceDeleted | ResourceChanged:
    """Do what `delete_resource` does, in a transaction."""
    current_etag = _locked_etag(transaction, tenant, kind, resource_id)
    if current_etag is None or expected_etag not in (ANY_ETAG, current_etag):
        return ResourceChanged(current_etag)
    transaction.execute(f"DELETE FROM resources WHERE {_NAMED}", (kind, tenant, resource_id))
    return ResourceDeleted()


def _write_version(
    transaction: Transaction, resource: ResourceRow, values: Sequence[object], expected_etag: str | None
) -> ResourcePut | ResourceChanged:
    current_etag = _locked_etag(transaction, resource.tenant, resource.kind, resource.resource_id)
    conflict = resource_conflict(expected_etag, current_etag)
    if conflict is not None:
        return conflict
    transaction.execute(_PUT, values)
    return ResourcePut(created=current_etag is None)


def _locked_etag(transaction: Transaction, tenant: str, kind: str, resource_id: str) -> str | None:
    transaction.lock(_lock_name(tenant, kind, resource_id))
    found = transaction.one(f"SELECT etag FROM resources WHERE {_NAMED}", (kind, tenant, resource_id))
    return None if found is None else str(found[0])


def _lock_name(tenant: str, kind: str, resource_id: str) -> str:
    return f"resource/{kind}/{tenant}/{resource_id}"


def _values_of(resource: ResourceRow) -> list[object]:
    return _RESOURCES.values(resource, body=encode_json(resource.body), author=author_column(resource.author))


async def read_resource(database: Database, tenant: str, kind: str, resource_id: str) -> ResourceRow | None:
    """Return a resource by id."""
    found = await database.rows(f"SELECT {_COLUMNS} FROM resources WHERE {_NAMED}", (kind, tenant, resource_id))
    return _RESOURCES.row(found[0]) if found else None


async def list_resources(
    database: Database, tenant: str, kind: str, *, limit: int, cursor: str | None = None, prefix: str | None = None
) -> ResourcePage:
    """Return resources of a kind, ordered by id; with `prefix`, only resources whose ids begin with it."""
    size, after, beginning = platform_page_size(limit), id_position(cursor), prefix or ""
    conditions = "kind = ? AND tenant = ? AND resource_id >= ?"
    values: list[object] = [kind, tenant, beginning]
    if after is not None:
        conditions += " AND resource_id > ?"
        values.append(after)
    statement = f"SELECT {_COLUMNS} FROM resources WHERE {conditions} ORDER BY resource_id LIMIT ?"
    ordered = map(_RESOURCES.row, await database.rows(statement, (*values, size + 1)))
    # Ids with one prefix are adjacent, and the page starts at the first of them.
    found = tuple(takewhile(lambda resource: resource.resource_id.startswith(beginning), ordered))
    page, next_cursor = cut_page(found, size, lambda resource: id_cursor(resource.resource_id))
    return ResourcePage(tuple(page), next_cursor)


async def list_all_resources(database: Database, kind: str) -> tuple[ResourceRow, ...]:
    """Return resources of a kind of every tenant, ordered by tenant and id."""
    statement = f"SELECT {_COLUMNS} FROM resources WHERE kind = ? ORDER BY tenant, resource_id"
    return tuple(map(_RESOURCES.row, await database.rows(statement, (kind,))))


# --- small values under names ----------------------------------------------------------------------


async def read_mark(database: Database, name: str) -> JsonValue:
    """Return the small value stored under a name, or None."""
    return await database.read(lambda reader: stored_mark(reader, name))


async def set_mark(database: Database, name: str, value: JsonValue) -> None:
    """Store a small value under a name."""
    await database.write(lambda transaction: write_mark(transaction, name, value))


async def drop_mark(database: Database, name: str, *, call: CallRecord | None = None) -> bool:
    """Delete the value under a name and return whether it existed."""
    return await database.write(
        lambda transaction: transaction.execute("DELETE FROM marks WHERE name = ?", (name,)) > 0,
        call=call,
        is_long=True,
    )


def stored_mark(reader: Reader, name: str) -> JsonValue:
    """Do what `read_mark` does, in a transaction."""
    found = reader.one(_MARK, (name,))
    return None if found is None else decode_json(_VALUE, found[0])


def write_mark(transaction: Transaction, name: str, value: JsonValue) -> None:
    """Do what `set_mark` does, in a transaction."""
    encoded = encode_json(value)
    transaction.execute(_SET_MARK, (name, encoded, row_checksum((name, encoded))))

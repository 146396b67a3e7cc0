"""Registered resources, and small named values ("marks"), in the SQLite file.

All functions take a connection. Those that write run inside a transaction of the file's only writer, so that the etag
they compare is the one they replace.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import msgspec

from penstock.base.json import JsonValue
from penstock.runtime.ports.platform import (
    ANY_ETAG,
    ResourceChanged,
    ResourceDeleted,
    ResourcePage,
    ResourcePut,
    ResourceRow,
)
from penstock.runtime.stores.rules.listings import cut_page, id_cursor, id_position, platform_page_size
from penstock.runtime.stores.rules.writes import resource_conflict
from penstock.runtime.stores.sqlite.checksums import row_checksum
from penstock.runtime.stores.sqlite.codec import RowCodec, author_column, author_of_column, decode_json, json_column

__all__ = [
    "delete_resource",
    "drop_mark",
    "put_resource",
    "put_resources",
    "read_all_resources",
    "read_mark",
    "read_resource",
    "read_resources",
    "set_mark",
]

_RESOURCES = RowCodec("resources", ResourceRow, body=json_column(dict[str, Any]), author=author_of_column)
_COLUMNS = _RESOURCES.columns
_NAMED = "kind = ? AND tenant = ? AND resource_id = ?"
_PUT = (
    f"INSERT INTO resources {_RESOURCES.insert} ON CONFLICT (kind, tenant, resource_id) DO UPDATE SET"
    " body = excluded.body, etag = excluded.etag, updated_at = excluded.updated_at, updated_by = excluded.updated_by,"
    " author = excluded.author, checksum = excluded.checksum"
)

_VALUE: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder()


def put_resource(
    connection: sqlite3.Connection, resource: ResourceRow, body: bytes, expected_etag: str | None
) -> ResourcePut | ResourceChanged:
    """Store a resource if its etag is the expected one."""
    current_etag = _etag(connection, resource.tenant, resource.kind, resource.resource_id)
    conflict = resource_conflict(expected_etag, current_etag)
    if conflict is not None:
        return conflict
    connection.execute(_PUT, _RESOURCES.values(resource, body=body, author=author_column(resource.author)))
    return ResourcePut(created=current_etag is None)


def put_resources(connection: sqlite3.Connection, resources: Sequence[tuple[ResourceRow, bytes]]) -> None:
    """Store resources over whatever is there."""
    for resource, body in resources:
        put_resource(connection, resource, body, ANY_ETAG)


def delete_resource(
    connection: sqlite3.Connection, tenant: str, kind: str, resource_id: str, expected_etag: str
) -> ResourceDeleted | ResourceChanged:
    """Remove a resource if its etag is the expected one."""
    current_etag = _etag(connection, tenant, kind, resource_id)
    if current_etag is None or expected_etag not in (ANY_ETAG, current_etag):
        return ResourceChanged(current_etag)
    connection.execute(f"DELETE FROM resources WHERE {_NAMED}", (kind, tenant, resource_id))
    return ResourceDeleted()


def _etag(connection: sqlite3.Connection, tenant: str, kind: str, resource_id: str) -> str | None:
    found = connection.execute(f"SELECT etag FROM resources WHERE {_NAMED}", (kind, tenant, resource_id)).fetchall()
    return found[0][0] if found else None


def read_resource(connection: sqlite3.Connection, tenant: str, kind: str, resource_id: str) -> ResourceRow | None:
    """A resource by id."""
    statement = f"SELECT {_COLUMNS} FROM resources WHERE {_NAMED}"
    found = connection.execute(statement, (kind, tenant, resource_id)).fetchall()
    return _RESOURCES.row(found[0]) if found else None


def read_resources(
    connection: sqlite3.Connection, tenant: str, kind: str, *, limit: int, cursor: str | None, prefix: str
) -> ResourcePage:
    """A page of resources of a kind, ordered by id."""
    size, after = platform_page_size(limit), id_position(cursor)
    conditions = "kind = ? AND tenant = ? AND resource_id >= ?"
    parameters: list[object] = [kind, tenant, prefix]
    if after is not None:
        conditions += " AND resource_id > ?"
        parameters.append(after)
    statement = f"SELECT {_COLUMNS} FROM resources WHERE {conditions} ORDER BY resource_id LIMIT ?"
    ordered = map(_RESOURCES.row, connection.execute(statement, (*parameters, size + 1)).fetchall())
    # Ids with one prefix are adjacent, and the page starts at the first of them.
    found = tuple(takewhile(lambda resource: resource.resource_id.startswith(prefix), ordered))
    page, next_cursor = cut_page(found, size, lambda resource: id_cursor(resource.resource_id))
    return ResourcePage(tuple(page), next_cursor)


def read_all_resources(connection: sqlite3.Connection, kind: str) -> tuple[ResourceRow, ...]:
    """Resources of a kind of every tenant, ordered by tenant and id."""
    statement = f"SELECT {_COLUMNS} FROM resources WHERE kind = ? ORDER BY tenant, resource_id"
    return tuple(map(_RESOURCES.row, connection.execute(statement, (kind,)).fetchall()))


def read_mark(connection: sqlite3.Connection, name: str) -> JsonValue:
    """The small value stored under a name."""
    found = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchall()
    return decode_json(_VALUE, found[0][0]) if found else None


def set_mark(connection: sqlite3.Connection, name: str, value: bytes) -> None:
    """Store a small value under a name."""
    statement = (
        "INSERT INTO marks (name, value, checksum) VALUES (?,?,?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
    )
    connection.execute(statement, (name, value, row_checksum((name, value))))


def drop_mark(connection: sqlite3.Connection, name: str) -> bool:
    """Delete the value under a name."""
    return connection.execute("DELETE FROM marks WHERE name = ?", (name,)).rowcount > 0

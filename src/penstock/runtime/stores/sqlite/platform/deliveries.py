"""The queue of deliveries in the SQLite file.

All functions take a connection; those that write run inside a transaction of the file's only writer. Deliveries are
numbered as they are queued. Listings are ordered by that number, and so are deliveries that are due at the same time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from penstock.runtime.ports.platform import DeliveryPage, DeliveryRow
from penstock.runtime.stores.rules.listings import cut_page, number_cursor, number_position, platform_page_size
from penstock.runtime.stores.sqlite.checksums import checked_columns
from penstock.runtime.stores.sqlite.codec import RowCodec, json_column
from penstock.runtime.stores.sqlite.set_aside import SetAside

__all__ = [
    "add_deliveries",
    "deliveries_statement",
    "forget_deliveries",
    "next_delivery_at",
    "read_deliveries",
    "read_delivery",
    "read_due",
    "save_delivery",
]

_DELIVERIES = RowCodec("deliveries", DeliveryRow, event=json_column(dict[str, Any]))
_COLUMNS = _DELIVERIES.columns
_DUE_AT = "coalesce(next_at, created_at)"
_INSERT = f"INSERT INTO deliveries {_DELIVERIES.insert} ON CONFLICT DO NOTHING"
_SAVE = (
    "UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, updated_at = ?, last_status = ?, last_error = ?"
    " WHERE tenant = ? AND delivery_id = ?"
)
_CHECK = (
    f"UPDATE deliveries SET checksum = row_checksum({checked_columns('deliveries')})"
    " WHERE tenant = ? AND delivery_id = ?"
)
_DUE = (
    f"SELECT {_COLUMNS} FROM deliveries WHERE state = 'pending' AND {_DUE_AT} <= ? ORDER BY {_DUE_AT}, number LIMIT ?"
)
_NEXT = f"SELECT min({_DUE_AT}) FROM deliveries WHERE state = 'pending'"
_ENDED = (
    "SELECT delivery_id FROM deliveries WHERE state <> 'pending' AND updated_at < ?"
    " AND delivery_id NOT IN (SELECT value FROM json_each(?)) ORDER BY updated_at, number LIMIT ?"
)
_FORGET = "DELETE FROM deliveries WHERE delivery_id = ? AND state <> 'pending'"
_KIND = "deliveries"

_NUMBER_MAX = 2**63 - 1


def add_deliveries(connection: sqlite3.Connection, deliveries: Sequence[tuple[DeliveryRow, bytes]]) -> int:
    """Queue deliveries that are not known yet, each with its event as JSON. Returns how many were new."""
    rows = [_DELIVERIES.values(delivery, event=event) for delivery, event in deliveries]
    return connection.executemany(_INSERT, rows).rowcount if rows else 0


def read_due(connection: sqlite3.Connection, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
    """Pending deliveries that are due, the longest due first."""
    return tuple(map(_DELIVERIES.row, connection.execute(_DUE, (now, limit)).fetchall()))


def next_delivery_at(connection: sqlite3.Connection) -> int | None:
    """When the next pending delivery is due."""
    ((found,),) = connection.execute(_NEXT).fetchall()
    return None if found is None else int(found)


def save_delivery(connection: sqlite3.Connection, delivery: DeliveryRow) -> None:
    """Store the result of an attempt."""
    columns = (
        delivery.state,
        delivery.attempts,
        delivery.next_at,
        delivery.updated_at,
        delivery.last_status,
        delivery.last_error,
        delivery.tenant,
        delivery.delivery_id,
    )
    connection.execute(_SAVE, columns)
    connection.execute(_CHECK, (delivery.tenant, delivery.delivery_id))


def read_delivery(connection: sqlite3.Connection, tenant: str, delivery_id: str) -> DeliveryRow | None:
    """A delivery by id."""
    statement = f"SELECT {_COLUMNS} FROM deliveries WHERE tenant = ? AND delivery_id = ?"
    found = connection.execute(statement, (tenant, delivery_id)).fetchone()
    return None if found is None else _DELIVERIES.row(found)


def read_deliveries(
    connection: sqlite3.Connection,
    tenant: str,
    *,
    endpoint_id: str | None,
    state: str | None,
    limit: int,
    cursor: str | None,
) -> DeliveryPage:
    """A page of deliveries, the most recently queued first."""
    size = platform_page_size(limit)
    statement, parameters = deliveries_statement(tenant, endpoint_id, state, cursor)
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    page, next_cursor = cut_page(found, size, lambda columns: number_cursor(columns[-1]))
    return DeliveryPage(tuple(map(_DELIVERIES.row, page)), next_cursor)


def deliveries_statement(
    tenant: str, endpoint_id: str | None, state: str | None, cursor: str | None
) -> tuple[str, tuple[object, ...]]:
    """The statement of a listing and its parameters, without the last one: the number of rows."""
    before = number_position(cursor)
    conditions = ["tenant = ?"]
    parameters: list[object] = [tenant]
    for condition, value in (
        ("endpoint_id = ?", endpoint_id),
        ("state = ?", state),
        ("number < ?", None if before is None else min(before, _NUMBER_MAX)),
    ):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    where = " AND ".join(conditions)
    return f"SELECT {_COLUMNS}, number FROM deliveries WHERE {where} ORDER BY number DESC LIMIT ?", tuple(parameters)


def forget_deliveries(connection: sqlite3.Connection, set_aside: SetAside, *, before: int, limit: int) -> int:
    """Drop deliveries that ended before a given time."""
    found = connection.execute(_ENDED, (before, set_aside.names(_KIND), limit)).fetchall()
    names = [delivery_id for (delivery_id,) in found]
    return set_aside.delete_each(connection, _KIND, names, lambda name: connection.execute(_FORGET, (name,)).rowcount)

"""The queue of deliveries in the SQLite file.

Functions of a connection; those that write run inside a transaction of the file's one writer. Deliveries are numbered
as they are queued: listings go by that number, and so does the queue among those that are due at the same moment.

Above it: `platform_store`. Below it: `columns`, sqlite3; the tables are in `format.platform_tables`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.runtime.ports.platform import DeliveryPage, DeliveryRow
from penstock.runtime.stores.rules.platform import rows_wanted
from penstock.runtime.stores.rules.runs import cursor_of, position_of
from penstock.runtime.stores.sqlite.columns import decode_json

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

_COLUMNS = (
    "delivery_id, tenant, endpoint_id, run_id, event, state, attempts, next_at, created_at, updated_at, last_status,"
    " last_error"
)
_DUE_AT = "coalesce(next_at, created_at)"
_INSERT = f"INSERT INTO deliveries ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING"
_SAVE = (
    "UPDATE deliveries SET state = ?, attempts = ?, next_at = ?, updated_at = ?, last_status = ?, last_error = ?"
    " WHERE tenant = ? AND delivery_id = ?"
)
_DUE = (
    f"SELECT {_COLUMNS} FROM deliveries WHERE state = 'pending' AND {_DUE_AT} <= ? ORDER BY {_DUE_AT}, number LIMIT ?"
)
_NEXT = f"SELECT min({_DUE_AT}) FROM deliveries WHERE state = 'pending'"
_FORGET = (
    "DELETE FROM deliveries WHERE number IN (SELECT number FROM deliveries WHERE state <> 'pending' AND updated_at < ?"
    " ORDER BY updated_at, number LIMIT ?)"
)

_EVENT = msgspec.json.Decoder(dict[str, Any])
_NUMBER_MAX = 2**63 - 1


def add_deliveries(connection: sqlite3.Connection, deliveries: Sequence[tuple[DeliveryRow, bytes]]) -> int:
    """Queue deliveries that are not known yet, each with its event as JSON; how many."""
    rows = [
        (
            delivery.delivery_id,
            delivery.tenant,
            delivery.endpoint_id,
            delivery.run_id,
            event,
            delivery.state,
            delivery.attempts,
            delivery.next_at,
            delivery.created_at,
            delivery.updated_at,
            delivery.last_status,
            delivery.last_error,
        )
        for delivery, event in deliveries
    ]
    return connection.executemany(_INSERT, rows).rowcount if rows else 0


def read_due(connection: sqlite3.Connection, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
    """Pending deliveries whose time has come, longest due first."""
    return tuple(map(_delivery_of, connection.execute(_DUE, (now, limit)).fetchall()))


def next_delivery_at(connection: sqlite3.Connection) -> int | None:
    """When the next pending delivery is due."""
    ((found,),) = connection.execute(_NEXT).fetchall()
    return None if found is None else int(found)


def save_delivery(connection: sqlite3.Connection, delivery: DeliveryRow) -> None:
    """Keep what came of an attempt."""
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


def read_delivery(connection: sqlite3.Connection, tenant: str, delivery_id: str) -> DeliveryRow | None:
    """A delivery by id."""
    statement = f"SELECT {_COLUMNS} FROM deliveries WHERE tenant = ? AND delivery_id = ?"
    found = connection.execute(statement, (tenant, delivery_id)).fetchone()
    return None if found is None else _delivery_of(found)


def read_deliveries(
    connection: sqlite3.Connection,
    tenant: str,
    *,
    endpoint_id: str | None,
    state: str | None,
    limit: int,
    cursor: str | None,
) -> DeliveryPage:
    """A page of deliveries, the one that was queued last first."""
    size = rows_wanted(limit)
    statement, parameters = deliveries_statement(tenant, endpoint_id, state, cursor)
    found = connection.execute(statement, (*parameters, size + 1)).fetchall()
    rows = tuple(map(_delivery_of, found[:size]))
    return DeliveryPage(rows, cursor_of(found[size - 1][-1]) if len(found) > size else None)


def deliveries_statement(
    tenant: str, endpoint_id: str | None, state: str | None, cursor: str | None
) -> tuple[str, tuple[object, ...]]:
    """The statement of a listing and its parameters, all but the last: how many rows."""
    before = position_of(cursor)
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


def forget_deliveries(connection: sqlite3.Connection, *, before: int, limit: int) -> int:
    """Drop deliveries that ended before a moment."""
    return connection.execute(_FORGET, (before, limit)).rowcount


def _delivery_of(columns: Sequence[Any]) -> DeliveryRow:
    return DeliveryRow(
        delivery_id=columns[0],
        tenant=columns[1],
        endpoint_id=columns[2],
        run_id=columns[3],
        event=decode_json(_EVENT, columns[4]),
        state=columns[5],
        attempts=columns[6],
        next_at=columns[7],
        created_at=columns[8],
        updated_at=columns[9],
        last_status=columns[10],
        last_error=columns[11],
    )

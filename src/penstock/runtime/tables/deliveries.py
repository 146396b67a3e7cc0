"""The queue of deliveries.

Deliveries are numbered as they are queued. Listings are ordered by that number, and so are deliveries that are due at
the same time.

Several servers send from one queue. One of them claims a delivery before it sends it, and no other can until the claim
ends. The outcome of the attempt is stored only if nobody changed the delivery meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord, DeliveryPage, DeliveryRow
from penstock.runtime.ports.set_aside import ExpiredRows
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.checksums import CHECKED, checked_columns, row_checksum
from penstock.runtime.tables.codec import RowCodec, encode_json, json_column
from penstock.runtime.tables.listings import cut_page, number_cursor, number_position, platform_page_size

__all__ = [
    "add_deliveries",
    "change_delivery",
    "claim_delivery",
    "deliveries_statement",
    "forget_deliveries",
    "list_deliveries",
    "list_due_deliveries",
    "read_delivery",
    "read_next_delivery_at",
    "save_delivery",
    "write_deliveries",
]

_DELIVERIES = RowCodec("deliveries", DeliveryRow, event=json_column(dict[str, Any]))
_COLUMNS = _DELIVERIES.columns
_DUE_AT = "coalesce(next_at, created_at)"
_NAMED = "tenant = ? AND delivery_id = ?"
_INSERT = f"INSERT INTO deliveries {_DELIVERIES.insert} ON CONFLICT DO NOTHING"
_STORED = f"SELECT {checked_columns('deliveries')} FROM deliveries WHERE {_NAMED}"
_OUTCOME = ("state", "attempts", "next_at", "updated_at", "last_status", "last_error")
_SAVE = f"UPDATE deliveries SET {', '.join(f'{name} = ?' for name in _OUTCOME)}, checksum = ? WHERE {_NAMED}"
# What a claim changes, so that nobody who saw the delivery before can claim or change it.
_SEEN = ("state", "attempts", "next_at")
_DUE = (
    f"SELECT {_COLUMNS} FROM deliveries WHERE state = 'pending' AND {_DUE_AT} <= ? ORDER BY {_DUE_AT}, number LIMIT ?"
)
_NEXT = f"SELECT min({_DUE_AT}) FROM deliveries WHERE state = 'pending'"
_KIND = "deliveries"

_NUMBER_MAX = 2**63 - 1


async def add_deliveries(
    database: Database, deliveries: Sequence[DeliveryRow], *, call: CallRecord | None = None
) -> int:
    """Queue deliveries and return how many were new; known ids are ignored."""
    return await database.write(lambda transaction: write_deliveries(transaction, deliveries), call=call, happened=bool)


def write_deliveries(transaction: Transaction, deliveries: Sequence[DeliveryRow]) -> int:
    """Do what `add_deliveries` does, in a transaction."""
    given = [_DELIVERIES.values(delivery, event=encode_json(delivery.event)) for delivery in deliveries]
    # They are numbered in the order that is given, so only the locks are taken in the order of their names.
    for name in sorted({_lock_name(delivery) for delivery in deliveries}):
        transaction.lock(name)
    return transaction.many(_INSERT, given) if given else 0


def _lock_name(delivery: DeliveryRow) -> str:
    return f"delivery/{delivery.tenant}/{delivery.delivery_id}"


async def list_due_deliveries(database: Database, *, now: int, limit: int) -> tuple[DeliveryRow, ...]:
    """Return pending deliveries that are due, longest due first, then in the order of queueing."""
    return tuple(map(_DELIVERIES.row, await database.rows(_DUE, (now, limit))))


async def read_next_delivery_at(database: Database) -> int | None:
    """Return when the next pending delivery is due."""
    ((found,),) = await database.rows(_NEXT)
    return None if found is None else int(found)


async def claim_delivery(database: Database, seen: DeliveryRow, *, now: int, until: int) -> DeliveryRow | None:
    """Claim a due delivery for an attempt, which counts from now on. Return it as claimed, or None if it changed.

    It is due again at `until`, so that another server tries again if this one dies meanwhile.
    """
    claimed = replace(seen, attempts=seen.attempts + 1, next_at=until, updated_at=now)
    return claimed if await change_delivery(database, seen, claimed) else None


async def change_delivery(database: Database, seen: DeliveryRow, after: DeliveryRow) -> bool:
    """Store another state of a pending delivery, unless somebody changed or claimed it since it was seen.

    Return whether it is stored. Event, endpoint and run do not change.
    """
    return await database.write(lambda transaction: _write_outcome(transaction, after, seen=seen))


async def save_delivery(database: Database, delivery: DeliveryRow, *, call: CallRecord | None = None) -> None:
    """Store another state of a delivery, no matter which server has claimed it. Unknown ids are ignored."""

    def change(transaction: Transaction) -> None:
        _write_outcome(transaction, delivery)

    await database.write(change, call=call)


def _write_outcome(transaction: Transaction, after: DeliveryRow, *, seen: DeliveryRow | None = None) -> bool:
    named = (after.tenant, after.delivery_id)
    transaction.lock(_lock_name(after))
    found = transaction.one(_STORED, named)
    if found is None:
        return False
    stored = dict(zip(CHECKED["deliveries"], found, strict=True))
    if seen is not None and any(stored[name] != getattr(seen, name) for name in _SEEN):
        return False
    outcome = {name: getattr(after, name) for name in _OUTCOME}
    transaction.execute(_SAVE, (*outcome.values(), row_checksum([*{**stored, **outcome}.values()]), *named))
    return True


async def read_delivery(database: Database, tenant: str, delivery_id: str) -> DeliveryRow | None:
    """Return a delivery by id."""
    found = await database.rows(f"SELECT {_COLUMNS} FROM deliveries WHERE {_NAMED}", (tenant, delivery_id))
    return _DELIVERIES.row(found[0]) if found else None


async def list_deliveries(
    database: Database,
    tenant: str,
    *,
    endpoint_id: str | None = None,
    state: str | None = None,
    limit: int,
    cursor: str | None = None,
) -> DeliveryPage:
    """Return deliveries of a tenant, last queued first."""
    size = platform_page_size(limit)
    statement, values = deliveries_statement(tenant, endpoint_id, state, cursor)
    found = await database.rows(statement, (*values, size + 1))
    page, next_cursor = cut_page(found, size, lambda columns: number_cursor(columns[-1]))
    return DeliveryPage(tuple(map(_DELIVERIES.row, page)), next_cursor)


def deliveries_statement(
    tenant: str, endpoint_id: str | None, state: str | None, cursor: str | None
) -> tuple[str, tuple[object, ...]]:
    """Return the statement of a listing and its values, without the last one: the number of rows."""
    before = number_position(cursor)
    conditions = ["tenant = ?"]
    values: list[object] = [tenant]
    for condition, value in (
        ("endpoint_id = ?", endpoint_id),
        ("state = ?", state),
        ("number < ?", None if before is None else min(before, _NUMBER_MAX)),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    where = " AND ".join(conditions)
    return f"SELECT {_COLUMNS}, number FROM deliveries WHERE {where} ORDER BY number DESC LIMIT ?", tuple(values)


async def forget_deliveries(database: Database, *, before: int, limit: int) -> int:
    """Delete deliveries that ended (delivered or dead) before a time, oldest first; return how many."""
    ended = ExpiredRows(
        table="deliveries",
        key=("tenant", "delivery_id"),
        condition="state <> 'pending' AND updated_at < ?",
        parameters=(before,),
        order="ORDER BY updated_at, number LIMIT ?",
        order_parameters=(limit,),
    )
    set_aside = database.set_aside
    return await database.write(lambda transaction: set_aside.delete_expired(transaction, _KIND, ended), is_long=True)

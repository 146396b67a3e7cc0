"""Schedules."""

from __future__ import annotations

from typing import Any

from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import ANY, AnyHash, ScheduleRow
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.codec import RowCodec, encode_json, json_column

__all__ = ["delete_schedule", "list_schedules", "put_schedule"]

_SCHEDULES = RowCodec("schedules", ScheduleRow, paused=bool, spec=json_column(dict[str, Any]))
_ROWS = f"SELECT {_SCHEDULES.columns} FROM schedules"
_SET = ", ".join(f"{name} = excluded.{name}" for name in (*ScheduleRow.__struct_fields__, "checksum"))
_PUT = f"INSERT INTO schedules {_SCHEDULES.insert} ON CONFLICT (schedule_id) DO UPDATE SET {_SET}"


async def list_schedules(database: Database, *, tenant: str | None = None) -> tuple[ScheduleRow, ...]:
    """Return every schedule, or those of a tenant, ordered by id."""
    if tenant is None:
        found = await database.rows(f"{_ROWS} ORDER BY schedule_id")
    else:
        found = await database.rows(f"{_ROWS} WHERE tenant = ? ORDER BY schedule_id", (tenant,))
    return tuple(map(_SCHEDULES.row, found))


async def put_schedule(
    database: Database,
    schedule: ScheduleRow,
    *,
    expected: ScheduleRow | AnyHash | None = ANY,
    call: CallRecord | None = None,
) -> bool:
    """Store a schedule and return whether it was stored.

    With `expected`, only if the stored one equals it; None: only if its id is free.
    """
    values = _SCHEDULES.values(schedule, spec=encode_json(schedule.spec))

    def change(transaction: Transaction) -> bool:
        transaction.lock(f"schedule/{schedule.schedule_id}")
        if expected is not ANY:
            found = transaction.one(f"{_ROWS} WHERE schedule_id = ?", (schedule.schedule_id,))
            if (None if found is None else _SCHEDULES.row(found)) != expected:
                return False
        transaction.execute(_PUT, values)
        return True

    return await database.write(change, call=call)


async def delete_schedule(database: Database, schedule_id: str, *, call: CallRecord | None = None) -> bool:
    """Delete a schedule and return whether it existed."""

    def change(transaction: Transaction) -> bool:
        transaction.lock(f"schedule/{schedule_id}")
        return transaction.execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)) > 0

    return await database.write(change, call=call)

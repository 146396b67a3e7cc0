"""Schedules in the SQLite file."""

from __future__ import annotations

import sqlite3
from typing import Any

from penstock.runtime.ports.runs import ANY, AnyHash, ScheduleRow
from penstock.runtime.tables.codec import RowCodec, json_column

__all__ = ["delete_schedule", "put_schedule", "schedules"]

_SCHEDULES = RowCodec("schedules", ScheduleRow, paused=bool, spec=json_column(dict[str, Any]))
_ROWS = f"SELECT {_SCHEDULES.columns} FROM schedules"


def schedules(connection: sqlite3.Connection, tenant: str | None) -> tuple[ScheduleRow, ...]:
    """Every schedule, or those of a tenant, ordered by id."""
    statement = f"{_ROWS} WHERE :tenant IS NULL OR tenant = :tenant ORDER BY schedule_id"
    return tuple(map(_SCHEDULES.row, connection.execute(statement, {"tenant": tenant})))


def put_schedule(
    connection: sqlite3.Connection, schedule: ScheduleRow, spec: str | bytes, expected: ScheduleRow | AnyHash | None
) -> bool:
    """Store a schedule, whose specification is given as JSON, if the current one is as expected. False if it is not."""
    if expected is not ANY:
        found = connection.execute(f"{_ROWS} WHERE schedule_id = ?", (schedule.schedule_id,)).fetchone()
        if (None if found is None else _SCHEDULES.row(found)) != expected:
            return False
    connection.execute(f"INSERT OR REPLACE INTO schedules {_SCHEDULES.insert}", _SCHEDULES.values(schedule, spec=spec))
    return True


def delete_schedule(connection: sqlite3.Connection, schedule_id: str) -> bool:
    """Delete a schedule. Returns False if it did not exist."""
    return connection.execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)).rowcount > 0

"""Schedules in the SQLite file.

Above it: `store`, which says on which connection. Below it: `columns`; the table is in `format.schema`.
"""

from __future__ import annotations

import sqlite3

from penstock.runtime.ports.runs import ANY, AnyHash, ScheduleRow
from penstock.runtime.stores.sqlite.columns import schedule_of

__all__ = ["delete_schedule", "put_schedule", "schedules"]

_ROWS = "SELECT schedule_id, workflow_name, spec, next_at, paused, last_run_id, tenant FROM schedules"


def schedules(connection: sqlite3.Connection, tenant: str | None) -> tuple[ScheduleRow, ...]:
    """Every schedule, or those of a tenant, by id."""
    statement = f"{_ROWS} WHERE :tenant IS NULL OR tenant = :tenant ORDER BY schedule_id"
    return tuple(map(schedule_of, connection.execute(statement, {"tenant": tenant})))


def put_schedule(
    connection: sqlite3.Connection, schedule: ScheduleRow, spec: str | bytes, expected: ScheduleRow | AnyHash | None
) -> bool:
    """Keep a schedule, whose specification is given as JSON, if it stands as expected; whether it was kept."""
    if expected is not ANY:
        found = connection.execute(f"{_ROWS} WHERE schedule_id = ?", (schedule.schedule_id,)).fetchone()
        if (None if found is None else schedule_of(found)) != expected:
            return False
    connection.execute(
        "INSERT OR REPLACE INTO schedules VALUES (?,?,?,?,?,?,?)",
        (
            schedule.schedule_id,
            schedule.workflow_name,
            spec,
            schedule.next_at,
            schedule.paused,
            schedule.last_run_id,
            schedule.tenant,
        ),
    )
    return True


def delete_schedule(connection: sqlite3.Connection, schedule_id: str) -> bool:
    """Forget a schedule; whether there was one."""
    return connection.execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)).rowcount > 0

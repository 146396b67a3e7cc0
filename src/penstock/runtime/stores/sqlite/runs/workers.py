"""The workers that share an SQLite file: a worker has a row as long as it counts as alive.

That row is the lease. The clocks of two processes are never compared. A worker counts its heartbeats, and a process
that removes it names the last heartbeat that it saw.

Above it: `store`, which chooses the transaction. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3

from penstock.runtime.ports.runs import WorkerRow

__all__ = ["heartbeat", "register_worker", "remove_worker", "workers"]


def workers(connection: sqlite3.Connection) -> tuple[WorkerRow, ...]:
    """Every registered worker."""
    found = connection.execute("SELECT worker_id, beats, seen_at FROM workers ORDER BY worker_id")
    return tuple(WorkerRow(worker_id=name, beats=beats, seen_at=seen_at) for name, beats, seen_at in found)


def register_worker(connection: sqlite3.Connection, worker_id: str, at: int) -> None:
    """Register a worker. For a registered one this counts as a heartbeat."""
    connection.execute(
        "INSERT INTO workers (worker_id, beats, seen_at) VALUES (?, 1, ?)"
        " ON CONFLICT DO UPDATE SET beats = beats + 1, seen_at = excluded.seen_at",
        (worker_id, at),
    )


def heartbeat(connection: sqlite3.Connection, worker_id: str, at: int) -> bool:
    """Count a heartbeat. False if the worker is no longer registered."""
    statement = "UPDATE workers SET beats = beats + 1, seen_at = ? WHERE worker_id = ?"
    return connection.execute(statement, (at, worker_id)).rowcount > 0


def remove_worker(connection: sqlite3.Connection, worker_id: str, beats: int | None) -> bool:
    """Remove a worker if it has sent no heartbeat after the given one."""
    statement = "DELETE FROM workers WHERE worker_id = ? AND beats = coalesce(?, beats)"
    return connection.execute(statement, (worker_id, beats)).rowcount > 0

"""The workers that share an SQLite file: a row for as long as one is taken for alive.

That row is the lease. Nobody compares the clocks of two processes: a worker counts its signs of life, and whoever
strikes it off names the last one that it has seen.

Above it: `store`, which says in which transaction. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3

from penstock.runtime.ports.runs import WorkerRow

__all__ = ["heartbeat", "register_worker", "remove_worker", "workers"]


def workers(connection: sqlite3.Connection) -> tuple[WorkerRow, ...]:
    """Every listed worker."""
    found = connection.execute("SELECT worker_id, beats, seen_at FROM workers ORDER BY worker_id")
    return tuple(WorkerRow(worker_id=name, beats=beats, seen_at=seen_at) for name, beats, seen_at in found)


def register_worker(connection: sqlite3.Connection, worker_id: str, at: int) -> None:
    """List a worker; one that is listed already gives a sign of life."""
    connection.execute(
        "INSERT INTO workers (worker_id, beats, seen_at) VALUES (?, 1, ?)"
        " ON CONFLICT DO UPDATE SET beats = beats + 1, seen_at = excluded.seen_at",
        (worker_id, at),
    )


def heartbeat(connection: sqlite3.Connection, worker_id: str, at: int) -> bool:
    """Count a sign of life; False when the worker is not listed any more."""
    statement = "UPDATE workers SET beats = beats + 1, seen_at = ? WHERE worker_id = ?"
    return connection.execute(statement, (at, worker_id)).rowcount > 0


def remove_worker(connection: sqlite3.Connection, worker_id: str, beats: int | None) -> bool:
    """Take a worker off the list, if it has given no sign of life since the one that is named."""
    statement = "DELETE FROM workers WHERE worker_id = ? AND beats = coalesce(?, beats)"
    return connection.execute(statement, (worker_id, beats)).rowcount > 0

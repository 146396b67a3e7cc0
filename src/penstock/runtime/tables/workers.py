"""The workers that share a database: a worker has a row as long as it counts as alive.

That row is the lease. The clocks of two processes are never compared. A worker counts its heartbeats, and a process
that removes it names the last heartbeat that it saw.
"""

from __future__ import annotations

from penstock.runtime.ports.database import Database
from penstock.runtime.ports.runs import WorkerRow

__all__ = ["list_workers", "record_heartbeat", "register_worker", "remove_worker"]

_REGISTER = (
    "INSERT INTO workers (worker_id, beats, seen_at) VALUES (?, 1, ?)"
    " ON CONFLICT (worker_id) DO UPDATE SET beats = workers.beats + 1, seen_at = excluded.seen_at"
)
_BEAT = "UPDATE workers SET beats = beats + 1, seen_at = ? WHERE worker_id = ?"
_REMOVE = "DELETE FROM workers WHERE worker_id = ?"


async def list_workers(database: Database) -> tuple[WorkerRow, ...]:
    """Return every registered worker."""
    found = await database.rows("SELECT worker_id, beats, seen_at FROM workers ORDER BY worker_id")
    return tuple(WorkerRow(worker_id=name, beats=beats, seen_at=seen_at) for name, beats, seen_at in found)


async def register_worker(database: Database, worker_id: str, *, at: int) -> None:
    """Register a worker: it owns its runs until it is removed. For a registered one this counts as a heartbeat."""
    await database.write(lambda transaction: transaction.execute(_REGISTER, (worker_id, at)))


async def record_heartbeat(database: Database, worker_id: str, *, at: int) -> bool:
    """Record a heartbeat of a registered worker; return False if it was removed and others may own its runs."""
    return await database.write(lambda transaction: transaction.execute(_BEAT, (at, worker_id)) > 0)


async def remove_worker(database: Database, worker_id: str, *, beats: int | None = None) -> bool:
    """Remove a worker and return whether it was there; with `beats`, only if it has sent no heartbeat since."""
    statement, values = (_REMOVE, (worker_id,)) if beats is None else (f"{_REMOVE} AND beats = ?", (worker_id, beats))
    return await database.write(lambda transaction: transaction.execute(statement, values) > 0)

"""The one writer of an SQLite file: a thread that commits everything that waits in one transaction.

Many runs share one disk synchronisation that way. A job is applied inside the shared transaction; its caller hears of
it only after the commit. If a batch fails, its jobs are tried again one by one, so that one bad job fails alone.

Above it: `sqlite`. Below it: sqlite3.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite_schema import explain

__all__ = ["GroupCommitWriter"]

T = TypeVar("T")
Apply = Callable[[sqlite3.Connection], Any]
# More jobs in one transaction do not lower the cost per job any further, but make the first one wait longer.
_BATCH_JOBS_MAX = 512


class _Job:
    __slots__ = ("apply", "error", "future", "result")

    def __init__(self, apply: Apply, future: asyncio.Future[Any]) -> None:
        self.apply = apply
        self.future = future
        self.result: Any = None
        self.error: Exception | None = None


class GroupCommitWriter:
    """Commits jobs in batches on a thread of its own."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="penstock-writer", daemon=True)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.commits = 0
        self.jobs = 0

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, apply: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a job; the future is done after the commit that holds it."""
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(Unavailable("STORE_CLOSED", "the store is closed"))
            return future
        self._queue.put(_Job(apply, future))
        return future

    async def close(self) -> None:
        """Commit what waits, then end the thread."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            batch: list[_Job] = []
            stop = job is None
            while job is not None:
                batch.append(job)
                if len(batch) >= _BATCH_JOBS_MAX:
                    break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
                stop = job is None
            if batch:
                self._commit(batch)
                try:
                    self._loop.call_soon_threadsafe(_deliver, batch)
                except RuntimeError:
                    return  # the loop is gone, and everybody who waited with it
            if stop:
                return

    def _commit(self, batch: list[_Job]) -> None:
        error = self._try(batch)
        if error is None:
            return
        if len(batch) == 1:
            batch[0].error = self._explained(error)
            return
        for job in batch:
            job.error = None
            alone = self._try([job])
            if alone is not None:
                job.error = self._explained(alone)

    def _explained(self, error: Exception) -> Exception:
        return explain(error, self._path) if isinstance(error, sqlite3.Error) else error

    def _try(self, batch: list[_Job]) -> Exception | None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                job.result = job.apply(connection)
            connection.execute("COMMIT")
        except Exception as error:  # whatever it is belongs to the caller of the job
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return error
        self.commits += 1
        self.jobs += len(batch)
        return None


def _deliver(batch: list[_Job]) -> None:
    for job in batch:
        if job.future.done():
            continue  # the caller gave up waiting; what was committed stays committed
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)

"""The one writer of an SQLite file: everything that waits is committed in one transaction.

Many runs share one disk synchronisation that way. Statements of a batch run on the event loop's thread: they only
touch memory, and a second thread that ran them would have to fight the loop for the interpreter after each of them. The
commit, which waits for the disk, runs on a thread of its own; meanwhile the next batch gathers. A caller hears of its
job only after the commit that holds it. If a batch fails, its jobs are tried again one by one, so that one bad job fails alone.

Above it: `sqlite`. Below it: sqlite3.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    """Commits jobs in batches. `busy_timeout_ms` is how long it waits for another process to let go of the file."""

    def __init__(self, connection: sqlite3.Connection, path: str, *, busy_timeout_ms: int = 10_000) -> None:
        self._connection = connection
        self._path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-writer")
        self._waiting: list[_Job] = []
        self._busy = False
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.commits = 0
        self.jobs = 0

    def submit(self, apply: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a job; the future is done after the commit that holds it."""
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(Unavailable("STORE_CLOSED", f"{self._path} is closed"))
            return future
        self._waiting.append(_Job(apply, future))
        if not self._busy:
            # Not at once: whoever else becomes ready in this round of the loop shares the commit.
            self._busy = True
            self._idle.clear()
            self._loop.call_soon(self._next)
        return future

    async def close(self) -> None:
        """Commit what waits, then let go of the file."""
        self._closed = True
        await self._idle.wait()
        self._thread.shutdown()
        self._connection.close()

    def _next(self) -> None:
        """Begin the next batch, or rest."""
        batch, self._waiting = self._waiting[:_BATCH_JOBS_MAX], self._waiting[_BATCH_JOBS_MAX:]
        if not batch:
            self._busy = False
            self._idle.set()
            return
        work: Callable[[], Exception | None]
        try:
            # A lock that is free is taken at once; waiting for one is not for this thread.
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            work = partial(self._whole, batch)  # the slow path: somebody else writes, or worse
        else:
            error = self._apply(batch)
            work = self._commit if error is None else partial(self._undo, error)
        self._thread.submit(work).add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._done, batch, done.result())
        )

    def _done(self, batch: list[_Job], error: Exception | None) -> None:
        if error is None:
            self.commits += 1
            self.jobs += len(batch)
            self._deliver(batch)
        elif len(batch) == 1:
            batch[0].error = explain(error, self._path) if isinstance(error, sqlite3.Error) else error
            self._deliver(batch)
        else:
            self._thread.submit(self._one_by_one, batch).add_done_callback(
                lambda _: self._loop.call_soon_threadsafe(self._settle, batch)
            )
            return
        self._next()

    def _settle(self, batch: list[_Job]) -> None:
        self._deliver(batch)
        self._next()

    def _apply(self, batch: list[_Job]) -> Exception | None:
        try:
            for job in batch:
                job.result = job.apply(self._connection)
        except Exception as error:  # whatever it is belongs to the caller of the job
            return error
        return None

    def _commit(self) -> Exception | None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            return self._undo(error)
        return None

    def _undo(self, error: Exception) -> Exception:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                return error  # the first error says more than the second
        return error

    def _whole(self, batch: list[_Job]) -> Exception | None:
        """A whole transaction on the writer's thread, waiting for the lock if need be."""
        try:
            self._connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            return error
        failed = self._apply(batch)
        return self._commit() if failed is None else self._undo(failed)

    def _one_by_one(self, batch: list[_Job]) -> None:
        for job in batch:
            error = self._whole([job])
            if error is None:
                self.commits += 1
                self.jobs += 1
            else:
                job.error = explain(error, self._path) if isinstance(error, sqlite3.Error) else error

    @staticmethod
    def _deliver(batch: list[_Job]) -> None:
        for job in batch:
            if job.future.done():
                continue  # the caller gave up waiting; what was committed stays committed
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)

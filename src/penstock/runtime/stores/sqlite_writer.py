"""The one writer of an SQLite file: a thread that commits everything that waits in one transaction.

Many runs share one disk synchronisation that way. A job is applied inside the shared transaction; its caller hears of
it only after the commit. If a batch fails, its jobs are tried again one by one, so that one bad job fails alone; if the
file cannot be written at all, all of them fail at once.

Above it: `sqlite`. Below it: sqlite3.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.stores.sqlite_errors import explain

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


class _NotBegunError(Exception):
    """No transaction could be begun: what stands in its cause concerns every job."""


class GroupCommitWriter:
    """Commits jobs in batches on a thread of its own."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._file = _file_identity(path)
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
            future.set_exception(Unavailable("STORE_CLOSED", f"{self._path} is closed", "open the store again"))
            return future
        self._queue.put(_Job(apply, future))
        return future

    async def stop(self) -> None:
        """Commit what waits, then end the thread."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def close(self) -> None:
        """Let go of the file; the last connection to do so writes everything into the main file."""
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
        if len(batch) == 1 or isinstance(error, _NotBegunError):
            self._fail(batch, error)
            return
        for number, job in enumerate(batch):
            alone = self._try([job])
            if isinstance(alone, _NotBegunError):
                # Waiting for the file once for each job could take minutes.
                self._fail(batch[number:], alone)
                return
            if alone is not None:
                self._fail([job], alone)

    def _fail(self, jobs: list[_Job], error: Exception) -> None:
        if isinstance(error, _NotBegunError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        for job in jobs:
            # One exception each: an exception that is raised in several tasks collects all their tracebacks.
            job.error = self._explained(error)

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            return explain(error, self._path)
        if isinstance(error, UnicodeEncodeError):
            return Rejected("TEXT_NOT_UNICODE", "a text has one half of a surrogate pair", "send well-formed text")
        return error

    def _try(self, batch: list[_Job]) -> Exception | None:
        connection = self._connection
        try:
            self._begin()
            for job in batch:
                job.result = job.apply(connection)
            connection.execute("COMMIT")
        except Exception as error:  # whatever it is belongs to the caller of the job
            self._roll_back()
            return error
        self.commits += 1
        self.jobs += len(batch)
        return None

    def _begin(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")  # the last one could not be rolled back when it failed
            self._connection.execute("BEGIN IMMEDIATE")
            if _file_identity(self._path) != self._file:
                # SQLite would go on writing into a file that nobody can find any more.
                told = f"{self._path} was moved, removed or replaced while it was in use"
                raise Unavailable("STORE_MOVED", told, "put the file back, or start again with the one that is there")
        except (sqlite3.Error, Unavailable) as error:
            raise _NotBegunError from error

    def _roll_back(self) -> None:
        """SQLite rolls back by itself after the gravest errors; what is left over, the next transaction sees to."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            return


def _file_identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _deliver(batch: list[_Job]) -> None:
    for job in batch:
        if job.future.done():
            continue  # the caller gave up waiting; what was committed stays committed
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)

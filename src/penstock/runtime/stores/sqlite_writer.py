"""The one writer of an SQLite file: everything that waits is committed in one transaction.

Many runs share one disk synchronisation that way. The statements of a batch run on the event loop's thread: they only
touch memory, and a second thread that ran them would have to fight the loop for the interpreter after each of them. The
commit, which waits for the disk, runs on a thread of its own; meanwhile the next batch gathers. So does everything that
is out of the ordinary: long jobs, waiting for a lock of another process, and trying the jobs of a failed batch again
one by one, so that one bad job fails alone. A caller hears of its job only after the commit that holds it.

Above it: `sqlite`. Below it: sqlite3.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.stores.sqlite_errors import explain

__all__ = ["GroupCommitWriter"]

T = TypeVar("T")
Apply = Callable[[sqlite3.Connection], Any]
# More jobs in one transaction do not lower the cost per job any further, but make the first one wait longer.
_BATCH_JOBS_MAX = 512


class _Job:
    __slots__ = ("apply", "error", "future", "is_long", "result")

    def __init__(self, apply: Apply, future: asyncio.Future[Any], is_long: bool) -> None:
        self.apply = apply
        self.future = future
        self.is_long = is_long
        self.result: Any = None
        self.error: Exception | None = None


class _NotBegunError(Exception):
    """No transaction could be begun: what stands in its cause concerns every job."""


class GroupCommitWriter:
    """Commits jobs in batches; the connection is its own."""

    def __init__(self, connection: sqlite3.Connection, path: str, *, busy_timeout_ms: int) -> None:
        self._connection = connection
        self._path = path
        self._file = _file_identity(path)
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

    def submit(self, apply: Callable[[sqlite3.Connection], T], *, is_long: bool = False) -> asyncio.Future[T]:
        """Queue a job; the future is done after the commit that holds it. A long one does not hold up the loop."""
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(Unavailable("STORE_CLOSED", f"{self._path} is closed", "open the store again"))
            return future
        self._waiting.append(_Job(apply, future, is_long))
        if not self._busy:
            # Not at once: whoever else becomes ready in this round of the loop shares the commit.
            self._busy = True
            self._idle.clear()
            self._loop.call_soon(self._next)
        return future

    async def stop(self) -> None:
        """Commit what waits; nothing more is taken."""
        self._closed = True
        await self._idle.wait()
        self._thread.shutdown()

    def close(self) -> None:
        """Let go of the file; the last connection to do so writes everything into the main file."""
        self._connection.close()

    def _next(self) -> None:
        """Begin the next batch, or rest."""
        batch, self._waiting = self._waiting[:_BATCH_JOBS_MAX], self._waiting[_BATCH_JOBS_MAX:]
        if not batch:
            self._busy = False
            self._idle.set()
            return
        applied = not any(job.is_long for job in batch) and self._apply_here(batch)
        work = self._thread.submit(self._finish if applied else self._patiently, batch)
        work.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._delivered, batch, done))

    def _delivered(self, batch: list[_Job], work: Future[None]) -> None:
        error = work.exception()
        if isinstance(error, Exception):
            self._fail(batch, error)  # nobody may take a job for done whose commit was not seen
        _deliver(batch)
        self._next()

    def _apply_here(self, batch: list[_Job]) -> bool:
        """Apply a batch on the loop's thread, if that can be done without waiting and without an error."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._begin()
            for job in batch:
                job.result = job.apply(self._connection)
        except Exception:  # the thread tries again, patiently, and finds out whose error it is
            self._roll_back()
            return False
        return True

    def _finish(self, batch: list[_Job]) -> None:
        """Commit what was applied; on the writer's thread."""
        try:
            self._commit_transaction()
        except Exception:  # whatever it is, nothing was committed
            self._roll_back()
            self._patiently(batch)
            return
        self.commits += 1
        self.jobs += len(batch)

    def _patiently(self, batch: list[_Job]) -> None:
        """A whole batch on the writer's thread, which may wait for a lock."""
        try:
            self._connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
        except sqlite3.Error as error:
            self._fail(batch, error)
            return
        self._commit(batch)

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
            self._commit_transaction()
        except Exception as error:  # whatever it is belongs to the caller of the job
            self._roll_back()
            return error
        self.commits += 1
        self.jobs += len(batch)
        return None

    def _commit_transaction(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            # Interrupted after the commit was done: it is done all the same.
            interrupted = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
            if not interrupted or self._connection.in_transaction:
                raise

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

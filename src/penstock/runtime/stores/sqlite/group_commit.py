"""The only writer of an SQLite file: all waiting jobs are committed in one transaction.

This way many runs share one disk synchronisation. The statements of a batch run on the event loop's thread. They only
touch memory, and a second thread would have to compete with the loop for the interpreter lock after each of them. The
commit waits for the disk, so it runs on a thread of its own while the next batch collects. The same thread does
everything out of the ordinary: long jobs, waiting for a lock of another process, and retrying the jobs of a failed
batch one by one, so that a bad job fails alone. A caller gets the result of its job only after the commit.

Consecutive jobs of one kind (the decisions of many runs) are written by one call, which can use one statement for all
of them: preparing and binding statements one by one costs more than SQLite's own work.

Above it: `database`. Below it: `transaction`, sqlite3.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.ports.commits import Commit
from penstock.runtime.ports.database import is_change
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.transactions import NotTogetherError
from penstock.runtime.stores.sqlite.errors import explain
from penstock.runtime.stores.sqlite.schema.free_pages import return_free_pages
from penstock.runtime.stores.sqlite.schema.log_ends import LogEnd
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction, cause_of
from penstock.runtime.tables.call_records import write_calls

__all__ = ["GroupCommitWriter"]

Item = TypeVar("Item")
T = TypeVar("T")
Apply = Callable[[SqliteTransaction], Any]
ApplyAll = Callable[[SqliteTransaction, list[Any]], list[Any]]
# More jobs in one transaction no longer lower the cost per job, but make the first one wait longer.
_BATCH_JOBS_MAX = 512


class _Job(asyncio.Future[Any]):
    """A job that is written by itself, and the future that its caller waits for."""

    __slots__ = ("apply", "call", "error", "happened", "is_long", "outcome")
    apply: Apply
    call: CallRecord | None
    happened: Callable[[Any], bool]
    is_long: bool
    outcome: Any
    error: Exception | None


class _SharedJob(Commit[Any]):
    """A job that is written together with others of its kind: `apply_all` gets the `item` of each."""

    __slots__ = ("apply_all", "call", "error", "happened", "item", "outcome")
    apply_all: ApplyAll
    call: CallRecord | None
    happened: Callable[[Any], bool]
    item: Any
    outcome: Any
    error: Exception | None


_AnyJob: TypeAlias = _Job | _SharedJob


class _TransactionNotStartedError(Exception):
    """No transaction could be started. The cause applies to every job."""


class GroupCommitWriter:
    """Commits jobs in batches. It owns its connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        *,
        busy_timeout_ms: int,
        note_damage: Callable[[Unavailable], Unavailable] | None = None,
        log_end: LogEnd | None = None,
    ) -> None:
        self._connection = connection
        self._log_end = log_end
        self._is_end_noted, self._noted_at = True, 0.0
        self._note_damage = note_damage or (lambda error: error)
        self._transaction = SqliteTransaction(connection)
        self._path = path
        self._log_path = f"{os.path.realpath(path)}-wal"
        self._file, self._log = _file_identity(path), _file_identity(self._log_path)
        self._busy_timeout_ms = busy_timeout_ms
        self._lock_timeout_ms: int | None = None  # the current setting of the connection
        self._loop = asyncio.get_running_loop()
        self._handed: SimpleQueue[tuple[Callable[[list[_AnyJob]], None], list[_AnyJob]] | None] = SimpleQueue()
        # No pool: its queue, its futures and their callbacks cost more than handing a batch over.
        self._thread = threading.Thread(target=self._work, name="penstock-writer", daemon=True)
        self._thread.start()
        self._waiting: list[_AnyJob] = []
        self._long_jobs = 0  # how many of the waiting jobs are long
        self._busy = False
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.commits = 0
        self.jobs = 0
        self.committed_at: float | None = None
        """When the last commit finished, on the loop's clock; None after a commit that failed."""

    def submit(
        self,
        apply: Callable[[SqliteTransaction], T],
        *,
        call: CallRecord | None = None,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
    ) -> asyncio.Future[T]:
        """Queue a job. The future is done after its commit. A long job does not block the event loop.

        If the job `happened`, judged by its outcome, the record of the call that made it is stored with it.
        """
        job = _Job(loop=self._loop)
        job.apply, job.is_long, job.error = apply, is_long, None
        job.call, job.happened = call, happened
        self._long_jobs += is_long
        self._queue(job)
        return job

    def submit_with_others(
        self,
        apply_all: Callable[[SqliteTransaction, list[Item]], list[T]],
        item: Item,
        *,
        call: CallRecord | None = None,
    ) -> Commit[T]:
        """Queue a job of a frequent kind. Consecutive jobs with the same `apply_all` are written by one call.

        If that call raises `NotTogetherError`, its changes are undone and it is repeated for each item alone. The
        returned commit cannot be cancelled: the job is committed whether or not anybody waits for it.
        """
        job = _SharedJob(loop=self._loop)
        job.apply_all, job.item, job.error = apply_all, item, None
        job.call, job.happened = call, is_change
        if self._busy and not self._closed:
            self._waiting.append(job)
        else:
            self._queue(job)
        return job

    def _queue(self, job: _AnyJob) -> None:
        if self._closed:
            job.set_exception(Unavailable("STORE_CLOSED", f"{self._path} is closed", "open the store again"))
            return
        self._waiting.append(job)
        if not self._busy:
            # Not at once: tasks that become ready in the same iteration of the loop share the commit.
            self._busy = True
            self._idle.clear()
            self._loop.call_soon(self._next)

    async def stop(self) -> None:
        """Commit the waiting jobs and accept no more."""
        self._closed = True
        await self._idle.wait()
        self._handed.put(None)
        self._thread.join()

    def close(self) -> None:
        """Close the file. The last connection to close it merges the log into the main file."""
        self._connection.close()
        if self._log_end is not None:
            self._log_end.close()

    def _next(self) -> None:
        """Start the next batch, or become idle."""
        batch, self._waiting = self._waiting[:_BATCH_JOBS_MAX], self._waiting[_BATCH_JOBS_MAX:]
        if not batch:
            self._busy = False
            self._idle.set()
            return
        applied = not self._has_long(batch) and self._apply_on_loop(batch)
        self._handed.put((self._finish if applied else self._commit_on_thread, batch))

    def _work(self) -> None:
        """Commit the batches that are handed over, one by one. Runs on the writer's thread until it gets None."""
        while (handed := self._next_handed()) is not None:
            commit, batch = handed
            try:
                commit(batch)
            except Exception as error:  # no job may count as done if its commit was not seen
                self._fail(batch, error)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
                self._loop.call_soon_threadsafe(self._delivered, batch)

    def _next_handed(self) -> tuple[Callable[[list[_AnyJob]], None], list[_AnyJob]] | None:
        """Wait for the next batch. If the end of the log was noted long enough ago, note it again before."""
        if self._log_end is None or self._is_end_noted:
            return self._handed.get()
        left = self._noted_at + limits.STORE_LOG_END_NOTED_SECONDS - time.monotonic()
        if left > 0:
            with suppress(Empty):
                return self._handed.get(timeout=left)
        self._log_end.note()
        self._is_end_noted, self._noted_at = True, time.monotonic()
        return self._handed.get()

    def _has_long(self, batch: list[_AnyJob]) -> bool:
        if not self._long_jobs:
            return False
        found = sum(isinstance(job, _Job) and job.is_long for job in batch)
        self._long_jobs -= found
        return found > 0

    def _delivered(self, batch: list[_AnyJob]) -> None:
        committed = any(job.error is None for job in batch)
        self.committed_at = self._loop.time() if committed else None
        _deliver(batch)
        self._next()

    def _apply_on_loop(self, batch: list[_AnyJob]) -> bool:
        """Apply a batch on the loop's thread, if that needs no waiting and raises no error."""
        for together in (True, False):
            try:
                self._wait_for_locks(0)
                self._begin()
                self._apply(batch, together=together)
            except NotTogetherError:
                self._roll_back()
            except Exception:  # the thread tries again, can wait, and finds out which job failed
                self._roll_back()
                return False
            else:
                return True
        return False

    def _wait_for_locks(self, timeout_ms: int) -> None:
        if timeout_ms != self._lock_timeout_ms:
            self._connection.execute(f"PRAGMA busy_timeout = {timeout_ms}")
            self._lock_timeout_ms = timeout_ms

    def _finish(self, batch: list[_AnyJob]) -> None:
        """Commit what was applied. Runs on the writer's thread."""
        try:
            self._commit_transaction()
        except Exception:  # whatever the error is, nothing was committed
            self._roll_back()
            self._commit_on_thread(batch)
            return
        self.commits += 1
        self.jobs += len(batch)

    def _commit_on_thread(self, batch: list[_AnyJob]) -> None:
        """Apply and commit a whole batch on the writer's thread, which may wait for a lock."""
        try:
            self._wait_for_locks(self._busy_timeout_ms)
        except sqlite3.Error as error:
            self._fail(batch, error)
            return
        self._commit(batch)

    def _commit(self, batch: list[_AnyJob]) -> None:
        error = self._try(batch)
        if error is None:
            return
        if len(batch) == 1 or isinstance(error, _TransactionNotStartedError):
            self._fail(batch, error)
            return
        for number, job in enumerate(batch):
            alone = self._try([job])
            if isinstance(alone, _TransactionNotStartedError):
                # Waiting for the file again for each job could take minutes.
                self._fail(batch[number:], alone)
                return
            if alone is not None:
                self._fail([job], alone)

    def _fail(self, jobs: list[_AnyJob], error: Exception) -> None:
        if isinstance(error, _TransactionNotStartedError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        for job in jobs:
            # A new exception for each job: one that is raised in several tasks would collect all their tracebacks.
            job.error = self._explained(error)

    def _explained(self, error: Exception) -> Exception:
        error = cause_of(error)
        if isinstance(error, sqlite3.Error):
            return self._note_damage(explain(error, self._path))
        if isinstance(error, UnicodeEncodeError):
            return Rejected("TEXT_NOT_UNICODE", "a text has one half of a surrogate pair", "send well-formed text")
        return error

    def _try(self, batch: list[_AnyJob]) -> Exception | None:
        try:
            self._begin()
            self._apply(batch, together=False)
            self._commit_transaction()
        except Exception as error:  # any error belongs to the caller of the job
            self._roll_back()
            return error
        self.commits += 1
        self.jobs += len(batch)
        return None

    def _apply(self, batch: list[_AnyJob], *, together: bool) -> None:
        """Apply jobs, and write the records of their calls: once for all of them."""
        transaction = self._transaction
        _apply(transaction, batch, together=together)
        calls: list[CallRecord] = []
        for job in batch:
            if job.call is not None and job.happened(job.outcome):
                job.call.changed(job.outcome)
                calls.append(job.call)
        if calls:
            write_calls(transaction, calls)

    def _commit_transaction(self) -> None:
        self._transaction.finish()
        try:
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            # An interrupt after the commit does not undo it.
            interrupted = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
            if not interrupted or self._connection.in_transaction:
                raise
        self._is_end_noted = False

    def _begin(self) -> None:
        self._transaction = SqliteTransaction(self._connection)
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")  # the last transaction could not be rolled back when it failed
            self._connection.execute("BEGIN IMMEDIATE")
            self._check_file_identity()
        except (sqlite3.Error, Unavailable) as error:
            raise _TransactionNotStartedError from error

    def _check_file_identity(self) -> None:
        """Refuse to write if the file or its log was moved or replaced.

        SQLite would continue to write into a file that no longer has a name, or into a log that nobody reads.
        """
        log = _file_identity(self._log_path)
        self._log = self._log or log
        if _file_identity(self._path) != self._file:
            message = f"{self._path} was moved, removed or replaced while it was in use"
            raise Unavailable("STORE_MOVED", message, "put the file back, or start again with the one that is there")
        if log != self._log:
            message = f"{self._log_path} was moved, removed or replaced while it was in use"
            raise Unavailable("STORE_MOVED", message, "stop this process, which saves what it can, and start it again")

    def _roll_back(self) -> None:
        """Roll back. SQLite does so itself after the most serious errors; the next transaction handles what remains."""
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


def _apply(transaction: SqliteTransaction, batch: list[_AnyJob], *, together: bool) -> None:
    """Apply jobs in order. With `together`, consecutive jobs of one kind are applied in one call."""
    first = 0
    while first < len(batch):
        job, following = batch[first], first + 1
        if isinstance(job, _Job):
            job.outcome = job.apply(transaction)
            if job.is_long:  # it may have deleted much
                return_free_pages(transaction.connection)
        else:
            apply_all, items = job.apply_all, [job.item]
            while together and following < len(batch):
                other = batch[following]
                if isinstance(other, _Job) or other.apply_all is not apply_all:
                    break
                items.append(other.item)
                following += 1
            for one, outcome in zip(batch[first:following], apply_all(transaction, items), strict=True):
                one.outcome = outcome
        first = following


def _deliver(batch: list[_AnyJob]) -> None:
    for job in batch:
        if job.call is not None and job.error is None and job.happened(job.outcome):
            job.call.committed()
        if isinstance(job, _SharedJob):
            if job.error is None:
                job.settle(job.outcome)
            else:
                job.fail(job.error)
        elif job.done():
            continue  # the caller stopped waiting; the commit stands
        elif job.error is not None:
            job.set_exception(job.error)
        else:
            job.set_result(job.outcome)

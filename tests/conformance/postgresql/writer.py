"""Makes changes and commits them: everything that waits, in one transaction, with the records of all their calls.

One thread with one connection makes the changes of a process, in the order in which they were asked for. If a batch
fails, each of its changes is made alone, so that a bad one fails alone. A change that loses against other processes
(a deadlock, say) is made again.

Consecutive changes of one kind (the decisions of many runs) are made by one call, if they can be.

Above it: `database`. Below it: `transaction`, `errors`, `runtime.tables.call_records`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import psycopg

from penstock.base.errors import Unavailable
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.transactions import NotTogetherError, Transaction
from penstock.runtime.tables.call_records import write_calls
from tests.conformance.postgresql.connections import Connection, Connections
from tests.conformance.postgresql.errors import explain, may_pass
from tests.conformance.postgresql.transaction import PostgresTransaction

__all__ = ["CommitWriter"]

Item = TypeVar("Item")
T = TypeVar("T")
# More changes in one transaction hold its locks for longer, and no longer lower the cost of each.
_BATCH_CHANGES_MAX = 256


class _Change(asyncio.Future[Any]):
    """A change, and the future that its caller waits for."""

    __slots__ = ("call", "error", "happened", "item", "kind", "outcome")
    kind: Callable[[Transaction, list[Any]], list[Any]]
    item: Any
    call: CallRecord | None
    happened: Callable[[Any], bool]
    outcome: Any
    error: Exception | None


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why changes are not stored."""

    error: Exception
    is_undone: bool
    """Whether it is certain that nothing was stored: not if the connection was lost during the commit."""
    may_pass: bool
    """Whether the same changes may succeed at once: they lost against others, or the connection was lost before."""


class CommitWriter:
    """Commits changes in batches. `attempts` says how often a change is made that loses against other processes."""

    def __init__(self, connections: Connections, *, attempts: int) -> None:
        self._connections = connections
        self._attempts = attempts
        self._connection: Connection | None = None
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[_Change | None] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="penstock-postgres-writer", daemon=True)
        self._thread.start()
        self.commits = 0

    def submit(
        self,
        kind: Callable[[Transaction, list[Item]], list[T]],
        item: Item,
        *,
        call: CallRecord | None,
        happened: Callable[[T], bool],
    ) -> asyncio.Future[T]:
        """Queue a change. The future is done after its commit. `kind` gets the items of consecutive changes."""
        change = _Change(loop=self._loop)
        change.kind, change.item, change.call, change.happened, change.error = kind, item, call, happened, None
        if self._is_closed:
            change.set_exception(Unavailable("STORE_CLOSED", "the database is closed", "open it again"))
        else:
            self._waiting.put(change)
        return change

    async def stop(self) -> None:
        """Commit what waits, and take no more."""
        if not self._is_closed:
            self._is_closed = True
            self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        """Commit batch after batch, until None comes. Runs on the thread of the writer."""
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if batch:
                self._commit(batch)
                with suppress(RuntimeError):  # the loop is closed: nobody waits any longer
                    self._loop.call_soon_threadsafe(_deliver, batch)

    def _next_batch(self) -> tuple[list[_Change], bool]:
        """Wait for a change, and return it with those that wait too; False if there will be no more."""
        batch: list[_Change] = []
        found = self._waiting.get()
        while found is not None:
            batch.append(found)
            if len(batch) == _BATCH_CHANGES_MAX:
                return batch, True
            try:
                found = self._waiting.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: list[_Change]) -> None:
        failure = self._try(batch)
        if failure is None:
            return
        for change in batch:
            again = failure if len(batch) == 1 or not failure.is_undone else self._try([change])
            for _ in range(1, self._attempts):
                if again is None or not again.may_pass:
                    break
                again = self._try([change])
            # A new exception for each: one that is raised in several tasks would collect all their tracebacks.
            change.error = None if again is None else explain(again.error)

    def _try(self, batch: list[_Change]) -> _Failure | None:
        """Make changes in one transaction. Return why they are not stored."""
        failure = self._try_once(batch, together=True)
        if failure is not None and isinstance(failure.error, NotTogetherError):
            failure = self._try_once(batch, together=False)
        return failure

    def _try_once(self, batch: list[_Change], *, together: bool) -> _Failure | None:
        connection, commits = self._connection, False
        try:
            if connection is None or connection.closed:
                connection = self._connection = self._connections.new(autocommit=False)
            self._apply(PostgresTransaction(connection), batch, together=together)
            commits = True
            connection.commit()
        except Exception as error:  # any error belongs to the caller of the change
            if connection is None:
                return _Failure(error, is_undone=True, may_pass=False)
            with suppress(psycopg.Error):  # the next transaction has a new connection
                connection.rollback()
            is_lost = connection.closed
            return _Failure(
                error, is_undone=not (is_lost and commits), may_pass=may_pass(error) or (is_lost and not commits)
            )
        self.commits += 1
        return None

    def _apply(self, transaction: Transaction, batch: list[_Change], *, together: bool) -> None:
        """Make changes, and write the records of their calls: once for all of them."""
        for kind, of_kind in groupby(batch, key=lambda change: change.kind):
            changes = list(of_kind)
            for some in [changes] if together else [[change] for change in changes]:
                for change, outcome in zip(some, kind(transaction, [one.item for one in some]), strict=True):
                    change.outcome = outcome
        calls: list[CallRecord] = []
        for change in batch:
            if change.call is not None and change.happened(change.outcome):
                change.call.changed(change.outcome)
                calls.append(change.call)
        if calls:
            write_calls(transaction, calls)


def _deliver(batch: list[_Change]) -> None:
    for change in batch:
        if change.call is not None and change.error is None and change.happened(change.outcome):
            change.call.committed()
        if change.done():
            continue  # the caller stopped waiting; the commit stands
        if change.error is not None:
            change.set_exception(change.error)
        else:
            change.set_result(change.outcome)

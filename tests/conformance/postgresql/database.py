"""One PostgreSQL database, as the database port has it.

Single statements and snapshots have threads with a connection each; a statement alone needs no transaction. Changes
have a thread of their own, see `writer`.

Above it: tests. Below it: `writer`, `transaction`, `topics`, `connections`, `run_index`, `word_index`, `erasure`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import psycopg

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.ports.database import is_change
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.ports.transactions import Reader, Row, Transaction, Values
from tests.conformance.postgresql.connections import Connection, Connections, Cursor
from tests.conformance.postgresql.erasure import PostgresErasure
from tests.conformance.postgresql.errors import explain
from tests.conformance.postgresql.run_index import PostgresRunIndex
from tests.conformance.postgresql.topics import TopicReader
from tests.conformance.postgresql.transaction import PostgresSnapshot, PostgresTransaction
from tests.conformance.postgresql.word_index import PostgresWordIndex
from tests.conformance.postgresql.writer import CommitWriter

__all__ = ["PostgresDatabase"]

Item = TypeVar("Item")
T = TypeVar("T")
_READERS = 4
# Long queries have threads of their own, so that others never wait for them.
_SLOW_READERS = 4
_ATTEMPTS = 5


class PostgresDatabase:
    """A database whose tables exist. `cursor_type` runs every statement; tests replace it to see or to fail some."""

    def __init__(
        self,
        address: str,
        *,
        lock_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS,
        attempts: int = _ATTEMPTS,
        cursor_type: type[Cursor] = psycopg.RawCursor,
    ) -> None:
        self._connections = Connections(address, lock_timeout_ms=lock_timeout_ms, cursor_type=cursor_type)
        self._topics = TopicReader(self._connections)
        self._attempts = attempts
        self._set_aside = SetAside()
        self._run_index, self._word_index = PostgresRunIndex(), PostgresWordIndex()
        self._erasure = PostgresErasure(self._connections)
        self._writer: CommitWriter | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._slow_readers: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Begin to read and to write. The first of each opens its connection."""
        self._set_aside.clear()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="penstock-postgres-reader")
        self._slow_readers = ThreadPoolExecutor(_SLOW_READERS, thread_name_prefix="penstock-postgres-slow-reader")
        self._writer = CommitWriter(self._connections, attempts=self._attempts)

    async def close(self) -> None:
        """Commit what waits, and close every connection."""
        writer, readers, slow_readers = self._writer, self._readers, self._slow_readers
        self._writer = self._readers = self._slow_readers = None
        if writer is None or readers is None or slow_readers is None:
            return
        await writer.stop()
        await asyncio.to_thread(readers.shutdown)
        await asyncio.to_thread(slow_readers.shutdown)
        self._connections.close()

    @property
    def commits(self) -> int:
        """How many transactions were committed since the database was opened."""
        return 0 if self._writer is None else self._writer.commits

    @property
    def set_aside(self) -> SetAside:
        """What could not be deleted since the database was opened."""
        return self._set_aside

    @property
    def damage(self) -> Unavailable | None:
        """Nothing: a server that finds damage says so at every statement that meets it."""
        return None

    @property
    def run_index(self) -> PostgresRunIndex:
        """The index of runs by text and by commit."""
        return self._run_index

    @property
    def word_index(self) -> PostgresWordIndex:
        """The index of the words of memory."""
        return self._word_index

    @property
    def erasure(self) -> PostgresErasure:
        """What removes the bytes of deleted memory."""
        return self._erasure

    async def read(self, query: Callable[[Reader], T], *, is_short: bool = False, is_long: bool = False) -> T:
        """Run several statements in one snapshot. Short ones wait for the server, too, so they get a thread."""
        return await self._on_thread(partial(_in_snapshot, query), is_long=is_long)

    async def rows(self, statement: str, values: Values = (), *, is_short: bool = False) -> list[Row]:
        """Return all rows of one statement."""
        return await self._on_thread(lambda connection: PostgresTransaction(connection).rows(statement, values))

    async def one(self, statement: str, values: Values = ()) -> Row | None:
        """Return the first row of one statement."""
        return await self._on_thread(lambda connection: PostgresTransaction(connection).one(statement, values))

    def write(
        self,
        change: Callable[[Transaction], T],
        *,
        call: CallRecord | None = None,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
    ) -> Awaitable[T]:
        """Make a change, and store the record of the call that makes it. None holds up the event loop."""
        if self._writer is None:
            raise _closed()
        return self._writer.submit(lambda transaction, _: [change(transaction)], None, call=call, happened=happened)

    def write_together(
        self, kind: Callable[[Transaction, list[Item]], list[T]], item: Item, *, call: CallRecord | None = None
    ) -> Awaitable[T]:
        """Make a frequent change, together with others of its kind that wait."""
        if self._writer is None:
            raise _closed()
        return self._writer.submit(kind, item, call=call, happened=is_change)

    def changed(self, *topics: Topic) -> Mark:
        """Return a number for each topic that changes once any process has changed it."""
        return self._topics.changed(*topics)

    async def _on_thread(self, query: Callable[[Connection], T], *, is_long: bool = False) -> T:
        threads = self._slow_readers if is_long else self._readers
        if threads is None:
            raise _closed()
        return await asyncio.get_running_loop().run_in_executor(threads, partial(self._read, query))

    def _read(self, query: Callable[[Connection], T]) -> T:
        try:
            connection = self._connections.of_thread()
            try:
                return query(connection)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
            # The connection was lost, perhaps long ago: the server was started again, say.
            return query(self._connections.of_thread())
        except Exception as error:
            explained = explain(error)
            if explained is error:
                raise
            raise explained from error


def _in_snapshot(query: Callable[[Reader], T], connection: Connection) -> T:
    with PostgresSnapshot(connection) as reader:
        return query(reader)


def _closed() -> Unavailable:
    return Unavailable("STORE_CLOSED", "the database is not open", "open it first")

"""One open SQLite file: its single writer, a few reader threads, and a connection for reads on the event loop.

Above it: `app`, `graphs`, `maintenance`. Below it: `group_commit`, `schema.files`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.ports.database import is_change
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.run_index import RunIndex
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.ports.transactions import Reader, Row, RowError, StatementError, Transaction, Values
from penstock.runtime.stores.sqlite.erasure import SqliteErasure
from penstock.runtime.stores.sqlite.errors import explain
from penstock.runtime.stores.sqlite.group_commit import GroupCommitWriter
from penstock.runtime.stores.sqlite.runs.index import SqliteRunIndex
from penstock.runtime.stores.sqlite.schema.files import Synchronous, connect, open_for_writing
from penstock.runtime.stores.sqlite.schema.log_ends import LogEnd, count_frames, forget_end
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions
from penstock.runtime.stores.sqlite.schema.topics import read_numbers
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction, cause_of
from penstock.runtime.stores.sqlite.word_index import SqliteWordIndex

__all__ = ["SqliteDatabase"]

Item = TypeVar("Item")
T = TypeVar("T")
_READERS = 4
# Queries of graphs may take seconds. They have threads of their own, so that reads of runs never wait for them.
_SLOW_READERS = 4
_ANYTHING = (Topic.ANYTHING,)


class SqliteDatabase:
    """One SQLite file. `synchronous` is FULL unless the operator chooses otherwise."""

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS,
    ) -> None:
        self.path = str(path)
        self._set_aside = SetAside()
        self._run_index = SqliteRunIndex()
        self._word_index, self._erasure = SqliteWordIndex(), SqliteErasure(self.cut_log)
        self._synchronous: Synchronous = synchronous
        self._busy_timeout_ms = busy_timeout_ms
        self.open_writer: GroupCommitWriter | None = None
        """None while the file is not open. Only the hot path reads this attribute; everything else uses `writer`."""
        self._readers: ThreadPoolExecutor | None = None
        self._slow_readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []
        self._on_loop: sqlite3.Connection | None = None
        self._copier: sqlite3.Connection | None = None
        self._copying = threading.Lock()
        self._unread_marks = 0
        self._damage: Unavailable | None = None
        self._is_version_current = self._are_numbers_current = False
        self._version: Mark = (0,)
        self._numbers: dict[str, int] = {}
        self._unknown_number = 0

    @property
    def writer(self) -> GroupCommitWriter:
        """The writer of an open file."""
        if self.open_writer is None:
            raise self._closed()
        return self.open_writer

    @property
    def set_aside(self) -> SetAside:
        """What could not be deleted since the file was opened."""
        return self._set_aside

    @property
    def damage(self) -> Unavailable | None:
        """What is known to be wrong with the file since it was opened. No run is started in a damaged file."""
        return self._damage

    @property
    def run_index(self) -> RunIndex:
        """The index of runs by text and by commit."""
        return self._run_index

    @property
    def word_index(self) -> SqliteWordIndex:
        """The full-text index of memory."""
        return self._word_index

    @property
    def erasure(self) -> SqliteErasure:
        """What overwrites the bytes of deleted memory."""
        return self._erasure

    def _closed(self) -> Unavailable:
        return Unavailable("STORE_CLOSED", f"{self.path} is not open", "open the store first")

    def note_damage(self, error: Unavailable) -> Unavailable:
        """Remember an error that says that the file is damaged, and return it."""
        if error.code == "STORE_CORRUPT":
            self._damage = error
        return error

    async def open(self) -> None:
        """Open or create the file and migrate it to the current format."""
        if self.path.startswith((":memory:", "file:")) or not self.path:
            raise Rejected("STORE_PATH_INVALID", f"{self.path!r} is not the name of a file", "name a file on a disk")
        try:
            connection = await asyncio.to_thread(
                open_for_writing, self.path, synchronous=self._synchronous, busy_timeout_ms=self._busy_timeout_ms
            )
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        self._damage = None
        self._local = threading.local()
        self._set_aside.clear()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="penstock-reader")
        self._slow_readers = ThreadPoolExecutor(_SLOW_READERS, thread_name_prefix="penstock-slow-reader")
        self.open_writer = GroupCommitWriter(
            connection,
            self.path,
            busy_timeout_ms=self._busy_timeout_ms,
            note_damage=self.note_damage,
            # With other settings, commits are lost in a power failure, as the operator chose.
            log_end=LogEnd(self.path) if self._synchronous == "FULL" else None,
        )

    async def close(self) -> None:
        """Commit what is waiting and close every connection, the writer's last, which leaves a single file behind."""
        writer, readers, slow_readers = self.open_writer, self._readers, self._slow_readers
        self.open_writer = self._readers = self._slow_readers = None
        if writer is None or readers is None or slow_readers is None:
            return
        await writer.stop()
        await asyncio.to_thread(readers.shutdown)
        await asyncio.to_thread(slow_readers.shutdown)
        for connection in self._reading:
            connection.close()
        self._reading.clear()
        self._on_loop = self._copier = None
        await asyncio.to_thread(writer.close)

    async def read(self, query: Callable[[Reader], T], *, is_short: bool = False, is_long: bool = False) -> T:
        """Run several statements in one snapshot: on a reader thread, or on the event loop's if they are short."""

        def read_snapshot(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN")
            try:
                return query(SqliteTransaction(connection))
            finally:
                if connection.in_transaction:  # SQLite itself ends the transaction after the most serious errors
                    connection.execute("ROLLBACK")

        if is_short:
            return await self.read_quickly(read_snapshot)
        return await (self.read_slowly(read_snapshot) if is_long else self.read_raw(read_snapshot))

    async def rows(self, statement: str, values: Values = (), *, is_short: bool = False) -> list[Row]:
        """All rows of one statement."""

        def query(connection: sqlite3.Connection) -> list[Row]:
            return SqliteTransaction(connection).rows(statement, values)

        return await (self.read_quickly(query) if is_short else self.read_raw(query))

    async def one(self, statement: str, values: Values = ()) -> Row | None:
        """The first row of one statement, read on the event loop's thread: a hop to another costs many times more."""
        return await self.read_quickly(lambda connection: SqliteTransaction(connection).one(statement, values))

    def write(
        self,
        change: Callable[[Transaction], T],
        *,
        call: CallRecord | None = None,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
    ) -> Awaitable[T]:
        """Make a change, and store the record of the call that makes it."""
        return self.writer.submit(change, call=call, happened=happened, is_long=is_long)

    def write_together(
        self, kind: Callable[[Transaction, list[Item]], list[T]], item: Item, *, call: CallRecord | None = None
    ) -> Awaitable[T]:
        """Make a frequent change, together with others of its kind."""
        return (self.open_writer or self.writer).submit_with_others(kind, item, call=call)

    def write_raw(
        self,
        change: Callable[[sqlite3.Connection], T],
        *,
        call: CallRecord | None = None,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
    ) -> Awaitable[T]:
        """Make a change with statements that only SQLite understands."""
        return self.writer.submit(
            lambda transaction: change(transaction.connection), call=call, happened=happened, is_long=is_long
        )

    async def read_raw(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on a reader thread."""
        if self._readers is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._in_reader, query)

    async def read_slowly(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query that may take long, on a thread that other reads do not wait for."""
        if self._slow_readers is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._slow_readers, self._in_reader, query)

    async def checkpoint(self) -> None:
        """Copy the log into the file on a thread of its own, without blocking others.

        The writer also does this at the end of a transaction, but then everybody waits for it. Callers that write much
        call this in between to avoid that.
        """
        if self._slow_readers is None:
            raise self._closed()
        await asyncio.get_running_loop().run_in_executor(self._slow_readers, self._checkpoint)

    async def cut_log(self) -> bool:
        """Copy all of the log into the file and make it empty; False if somebody still reads an older state."""
        if self._slow_readers is None:
            raise self._closed()
        return await asyncio.get_running_loop().run_in_executor(self._slow_readers, self._cut_log)

    def log_pages(self) -> int:
        """How many pages the log has, by its documented format; 0 if there is no log.

        The index of the log has this number, but must not be read here: a process that closes any descriptor of a file
        loses all its locks on it. SQLite locks the index, and the next process to open the file would clear an index
        that nobody locks, while this process uses it. The log itself is never locked.
        """
        try:
            log = os.open(f"{os.path.realpath(self.path)}-wal", os.O_RDONLY)
        except OSError:
            return 0
        try:
            return count_frames(log)
        finally:
            os.close(log)

    def _checkpoint(self) -> None:
        if not self._copying.acquire(blocking=False):
            return  # another thread does it
        try:
            if self._copier is None:
                self._copier = connect(self.path, mode="rw", busy_timeout_ms=0)
                self._reading.append(self._copier)
            self._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        finally:
            self._copying.release()

    def _cut_log(self) -> bool:
        with self._copying:
            try:
                connection = connect(self.path, mode="rw", busy_timeout_ms=self._busy_timeout_ms)
                try:
                    forget_end(self.path)
                    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    forget_end(self.path)
                finally:
                    connection.close()
            except sqlite3.Error as error:
                raise explain(error, self.path) from error
            return not busy

    def _in_reader(self, query: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        try:
            if connection is None:
                connection = self._local.connection = self._new_reader(self._busy_timeout_ms)
            return query(connection)
        except (sqlite3.Error, RowError, StatementError) as error:
            raise self.note_damage(explain(cause_of(error), self.path)) from error
        except UnicodeEncodeError:
            raise Rejected("TEXT_NOT_UNICODE", "the text has one half of a surrogate pair") from None

    def _new_reader(self, busy_timeout_ms: int) -> sqlite3.Connection:
        connection = connect(self.path, mode="ro", busy_timeout_ms=busy_timeout_ms)
        self._reading.append(connection)
        register_functions(connection)
        return connection

    def read_on_loop(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query that takes microseconds on the event loop's thread. It waits for no lock and raises SQLite's
        errors.
        """
        if self._on_loop is None:
            if self.open_writer is None:
                raise self._closed()
            self._on_loop = self._new_reader(busy_timeout_ms=0)
            self._on_loop.execute(f"PRAGMA cache_size = -{limits.STORE_LOOP_CACHE_KILOBYTES}")
        return query(self._on_loop)

    async def read_quickly(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a short index scan on the event loop's thread, where a hop to another thread would cost as much or more.

        If the file is locked or anything else fails, a reader thread tries again: it can wait, and it explains errors.
        """
        try:
            return self.read_on_loop(query)
        except (sqlite3.Error, RowError, StatementError, UnicodeEncodeError):
            return await self.read_raw(query)

    def changed(self, *topics: Topic) -> Mark:
        """A number for each topic that changes once any process has changed it. SQLite keeps them in shared memory.

        The file is asked once per iteration of the event loop. This is enough: a request that arrives after a commit,
        or a task that is woken by its own commit, runs in a later iteration. A statement costs little, but lets other
        threads run meanwhile: callers of rare topics, at every request, pay for one.
        """
        if topics == _ANYTHING:
            return self._read_version_once()
        if not self._are_numbers_current:
            self._are_numbers_current = True
            asyncio.get_running_loop().call_soon(self._end_turn)
            self._read_topics()
        numbers = self._numbers
        if Topic.ANYTHING in topics:
            numbers = {**numbers, Topic.ANYTHING: self._read_version_once()[0]}
        return tuple([numbers.get(topic, self._unknown_number) for topic in topics])

    def _end_turn(self) -> None:
        self._is_version_current = self._are_numbers_current = False

    def _read_version_once(self) -> Mark:
        if not self._is_version_current:
            self._is_version_current = True
            asyncio.get_running_loop().call_soon(self._end_turn)
            try:
                self._version = self.read_on_loop(_read_version)
            except sqlite3.Error:
                self._version = (self._unread_mark(),)
        return self._version

    def _read_topics(self) -> None:
        try:
            self._numbers, self._unknown_number = self.read_on_loop(read_numbers), 0
        except sqlite3.Error:
            self._numbers, self._unknown_number = {}, self._unread_mark()

    def _unread_mark(self) -> int:
        """A number that was never returned before: every caller looks."""
        self._unread_marks -= 1
        return self._unread_marks


def _read_version(connection: sqlite3.Connection) -> Mark:
    return (int(connection.execute("PRAGMA data_version").fetchall()[0][0]),)

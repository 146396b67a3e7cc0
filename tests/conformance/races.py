"""Lets two changes race: the first stops after one of its statements, and the second runs as far as it can.

Each has a connection of its own. The second ends, or waits for a lock of the first; then the first continues. What both
return and what the tables hold at the end has to be what one of the two orders gives. Nothing waits for a time:
PostgreSQL says who waits for whom.

Above it: tests of changes that race, and of statements that fail. Below it: the PostgreSQL driver, `families`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import psycopg

from penstock.base.errors import PenstockError
from tests.conformance.databases import empty
from tests.conformance.families import GIVEN, Call
from tests.conformance.postgresql.connections import Cursor
from tests.conformance.postgresql.database import PostgresDatabase
from tests.conformance.postgresql.transaction import LOCK
from tests.waiting import SECONDS_MAX

__all__ = ["Course", "Outcome", "Reach", "Track", "open_course", "pairs_that_meet"]

_NO_LOCK = b"SELECT $1::text"
_FAILURE = b"DO $$ BEGIN RAISE EXCEPTION 'the disk reported an error' USING ERRCODE = '58030'; END $$"
_SAVEPOINTS = ("SAVEPOINT", "ROLLBACK TO", "RELEASE")
_READ = re.compile(rb"\b(?:FROM|JOIN) ([a-z_]+)")
_WRITTEN = re.compile(rb"\b(?:INSERT INTO|UPDATE|DELETE FROM) ([a-z_]+) ")
# Every look holds all locks of the server for a moment, which the second change waits for.
_LOOK_AGAIN_SECONDS = 0.002
_IS_BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
# Numbers of rows come from sequences, which no transaction takes back. Keys of runs do not. Every transaction has a
# number of its own.
_COLUMNS = (
    "SELECT t.tablename, array_agg(c.column_name::text) FILTER"
    " (WHERE (c.is_identity = 'YES' AND c.column_name <> 'key') OR c.column_default LIKE '%pg_current_xact_id%')"
    " FROM pg_tables AS t JOIN information_schema.columns AS c"
    " ON c.table_schema = t.schemaname AND c.table_name = t.tablename"
    " WHERE t.schemaname = 'public' AND t.tablename <> 'topics' GROUP BY t.tablename"
)
# Columns with a number of another table's row.
_REFERENCES = {"workflows": ("number", "definition_versions"), "memory_words": ("entry", "memory_entries")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What changes gave, in the order of their names, and what the tables hold."""

    given: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """Which tables a change reads and writes, and how many statements it has."""

    read: frozenset[str]
    written: frozenset[str]
    statements: int


@dataclass(slots=True)
class Track:
    """What one database does in its transactions: counts statements, stops after one of them, or lets one fail."""

    loop: asyncio.AbstractEventLoop
    has_locks: bool = True
    stops_after: int = 0
    fails_at: int = 0
    backend: int = 0
    statements: list[bytes] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    """The tables that were written since they were filled."""
    has_stopped: asyncio.Event = field(default_factory=asyncio.Event)
    may_continue: threading.Event = field(default_factory=threading.Event)

    def arm(self, *, stops_after: int = 0, fails_at: int = 0) -> None:
        """Count from the beginning; 0 for never."""
        self.stops_after, self.fails_at, self.backend = stops_after, fails_at, 0
        self.statements = []
        self.has_stopped.clear()
        self.may_continue.clear()

    def begin(self, query: bytes, backend: int) -> bytes:
        """Count a statement, and return what runs in its place."""
        self.backend = backend
        self.statements.append(query)
        self.written |= _tables([query], _WRITTEN)
        if len(self.statements) == self.fails_at:
            return _FAILURE
        return _NO_LOCK if query == LOCK and not self.has_locks else query

    def end(self) -> None:
        """Stop after the statement that was to be the last for now."""
        if len(self.statements) == self.stops_after:
            self.loop.call_soon_threadsafe(self.has_stopped.set)
            if not self.may_continue.wait(SECONDS_MAX):
                raise TimeoutError("nobody let the transaction continue")

    def cursor_type(self) -> type[Cursor]:
        """Return the type of cursors whose transactions follow this track. Single statements do not."""
        track = self

        class TrackedCursor(psycopg.RawCursor[Any]):
            changed: int | None = None

            def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
                if self.connection.autocommit or str(query).startswith(_SAVEPOINTS):
                    return super().execute(query, params, **options)
                chosen = track.begin(query, self.connection.info.backend_pid)
                super().execute(chosen, None if chosen is _FAILURE else params, **options)
                track.end()
                return self

            def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
                changed = 0
                for params in params_seq:
                    self.execute(query, params)
                    changed += max(super().rowcount, 0)
                self.changed = changed

            @property
            def rowcount(self) -> int:
                return super().rowcount if self.changed is None else self.changed

        return TrackedCursor


class Course:
    """Two databases on the same tables, which are filled again before every race."""

    def __init__(
        self, monitor: psycopg.Connection[Any], databases: Sequence[PostgresDatabase], tracks: Sequence[Track]
    ) -> None:
        self.databases, self.tracks = databases, tracks
        self._monitor = monitor
        self._numbers: dict[str, list[str]] = dict(monitor.execute(_COLUMNS).fetchall())

    async def fill(self) -> None:
        """Fill the tables, and keep what they hold."""
        for call in GIVEN:
            await call(self.databases[0])
        self._monitor.execute("DROP SCHEMA IF EXISTS given CASCADE; CREATE SCHEMA given")
        for table in self._numbers:
            self._monitor.execute(f"CREATE TABLE given.{table} AS TABLE {table}".encode())

    async def alone(self, *calls: Call) -> Outcome:
        """Make changes one after the other, each on a connection of its own."""
        self._restore()
        given = [await _given(call(database)) for call, database in zip(calls, self.databases, strict=False)]
        return self._outcome(given)

    async def reach(self, call: Call) -> Reach:
        """Return what a change reads and writes when it is made alone."""
        await self.alone(call)
        statements = self.tracks[0].statements
        return Reach(
            read=_tables(statements, _READ) & self._numbers.keys(),
            written=_tables(statements, _WRITTEN) & self._numbers.keys(),
            statements=len(statements),
        )

    async def failed(self, call: Call, *, fails_at: int) -> Outcome | None:
        """Make a change whose n-th statement fails; None if it has fewer."""
        self._restore()
        self.tracks[0].arm(fails_at=fails_at)
        given = await _given(call(self.databases[0]))
        return self._outcome([given]) if len(self.tracks[0].statements) >= fails_at else None

    async def raced(self, first: Call, second: Call, *, stops_after: int) -> Outcome | None:
        """Make two changes at once: the first stops after its n-th statement. None if it has fewer."""
        self._restore()
        self.tracks[0].arm(stops_after=stops_after)
        leading = asyncio.ensure_future(_given(first(self.databases[0])))
        stopped = asyncio.ensure_future(self.tracks[0].has_stopped.wait())
        await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.done():
            stopped.cancel()
            return None
        try:
            following = asyncio.ensure_future(_given(second(self.databases[1])))
            while not following.done():
                if await self._is_blocked(self.tracks[1].backend):
                    break
                await asyncio.wait({following}, timeout=_LOOK_AGAIN_SECONDS)
        finally:  # the thread of the first waits for this
            self.tracks[0].may_continue.set()
        return self._outcome([await leading, await following])

    async def _is_blocked(self, backend: int) -> bool:
        found = await asyncio.to_thread(lambda: self._monitor.execute(_IS_BLOCKED, (backend,)).fetchall())
        return bool(found[0][0])

    def _restore(self) -> None:
        """Give the tables what they held at first, without counting topics."""
        written = set().union(*(track.written for track in self.tracks)) & self._numbers.keys()
        refill = [f"DELETE FROM {table}; INSERT INTO {table} TABLE given.{table}" for table in sorted(written)]
        self._monitor.execute("; ".join(refill).encode())
        for track in self.tracks:
            track.written.clear()
            track.arm()

    def _outcome(self, given: Sequence[str]) -> Outcome:
        shown = " UNION ALL ".join(
            f"SELECT '{table} ' || ({_shown(table, numbers)})::text FROM {table}"
            for table, numbers in self._numbers.items()
        )
        return Outcome(tuple(given), tuple(sorted(row for (row,) in self._monitor.execute(shown.encode()))))


@asynccontextmanager
async def open_course(address: str, *, has_locks: bool = True) -> AsyncIterator[Course]:
    """Open two databases on filled tables. A change that loses against the other one is not made again."""
    loop = asyncio.get_running_loop()
    tracks = [Track(loop, has_locks=has_locks) for _ in range(2)]
    async with AsyncExitStack() as stack:
        monitor = stack.enter_context(psycopg.connect(address, autocommit=True))
        monitor.execute("SET session_replication_role = replica")  # no triggers
        monitor.execute(f"SET lock_timeout = '{SECONDS_MAX / 2:g}s'")  # no transaction is left open
        empty(monitor)
        databases = []
        for track in tracks:
            database = PostgresDatabase(address, attempts=1, cursor_type=track.cursor_type())
            await database.open()
            stack.push_async_callback(database.close)
            databases.append(database)
        course = Course(monitor, databases, tracks)
        await course.fill()
        yield course


def pairs_that_meet(reaches: dict[str, Reach]) -> Iterator[tuple[str, str]]:
    """Return every two changes of which one writes a table that the other one uses too."""
    for one, other in combinations_with_replacement(reaches, 2):
        first, second = reaches[one], reaches[other]
        if first.written & (second.read | second.written) or second.written & first.read:
            yield one, other


def _shown(table: str, numbers: Sequence[str] | None) -> str:
    """Return how a row is shown: without its own numbers, and with the row that it refers to by one."""
    shown = f"to_jsonb({table}) - '{{{','.join(numbers or ())}}}'::text[]"
    if table in _REFERENCES:
        column, other = _REFERENCES[table]
        row = f"(SELECT to_jsonb(r) - '{column}' FROM {other} AS r WHERE r.{column} = {table}.{column})"
        shown += f" || jsonb_build_object('{column}', {row})"
    return shown


async def _given(call: Awaitable[object]) -> str:
    """Return what a change gives, or how it was refused."""
    try:
        return repr(await call)
    except PenstockError as error:
        return f"{error.code} {error.details.get('sqlstate', '')}"


def _tables(statements: Iterable[bytes], pattern: re.Pattern[bytes]) -> frozenset[str]:
    return frozenset(name.decode() for statement in statements for name in pattern.findall(statement))

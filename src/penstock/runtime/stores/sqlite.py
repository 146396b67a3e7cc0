"""The SQLite store: one file, one writer thread with group commit, a few readers.

A decision is one row of history (all its records together) and one change of the index row, guarded by the sequence
number that it was made for. Rows of one run lie next to each other, and runs in order of creation, so that a step costs
the same in an empty file and in one with a million runs.

Above it: `app` and the conformance suite. Below it: `sqlite_writer`, `sqlite_schema`, `sqlite_rows`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.base.errors import Unavailable
from penstock.engine.records import Record
from penstock.runtime.ports import (
    Appended,
    AppendOutcome,
    DefinitionRow,
    RunPage,
    RunQuery,
    RunRow,
    RunWrite,
    ScheduleRow,
    SequenceConflict,
    StoredRun,
    WorkerRow,
)
from penstock.runtime.stores.sqlite_rows import (
    RUN_COLUMNS,
    definition_of,
    encode_records,
    listing,
    records_of,
    run_of,
    schedule_of,
)
from penstock.runtime.stores.sqlite_schema import connect, explain, migrate
from penstock.runtime.stores.sqlite_writer import GroupCommitWriter

__all__ = ["SqliteStore"]

T = TypeVar("T")
_READERS = 4

_INSERT_RUN = (
    "INSERT INTO runs (run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at, updated_at,"
    " parent_run_id, labels, wake_at, has_work, owner, terminal) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT DO NOTHING"
)
_UPDATE_RUN = (
    "UPDATE runs SET status = ?, seq = ?, updated_at = ?, wake_at = ?, has_work = ?, owner = ?, terminal = ?"
    " WHERE run_id = ? AND seq = ? RETURNING key"
)
_INSERT_HISTORY = "INSERT INTO history (run, first_seq, last_seq, records) VALUES (?,?,?,?)"
# An owner that let its lease run out counts as none.
_NOBODY_ELSE = (
    "(owner IS NULL OR owner = :owner OR owner NOT IN (SELECT worker_id FROM workers WHERE expires_at > :now))"
)


class SqliteStore:
    """One SQLite file. `synchronous` is FULL unless the operator knows better."""

    def __init__(self, path: str | Path, *, synchronous: str = "FULL") -> None:
        self.path = str(path)
        self._synchronous = synchronous
        self._writer: GroupCommitWriter | None = None
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="penstock-reader")
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []

    @property
    def writer(self) -> GroupCommitWriter:
        """The writer of an open store."""
        if self._writer is None:
            raise Unavailable("STORE_CLOSED", f"{self.path} is not open", "open the store first")
        return self._writer

    async def open(self) -> None:
        """Open or create the file and bring it to the current format."""
        try:
            connection = await asyncio.to_thread(self._connected)
        except sqlite3.Error as error:
            raise explain(error, self.path) from None
        self._writer = GroupCommitWriter(connection, self.path)

    def _connected(self) -> sqlite3.Connection:
        connection = connect(self.path, synchronous=self._synchronous)
        try:
            migrate(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Commit what waits and close every connection."""
        if self._writer is not None:
            await self._writer.close()
            self._writer = None
        self._readers.shutdown()
        for connection in self._reading:
            connection.close()
        self._reading.clear()

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        self.writer  # noqa: B018  # a closed store says so
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._reading_with, query)

    def _reading_with(self, query: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        try:
            if connection is None:
                connection = connect(self.path, read_only=True)
                self._local.connection = connection
                self._reading.append(connection)
            return query(connection)
        except sqlite3.Error as error:
            raise explain(error, self.path) from None

    async def load(self, run_id: str) -> StoredRun | None:
        """A run with its whole history."""

        def query(connection: sqlite3.Connection) -> StoredRun | None:
            connection.execute("BEGIN")  # row and history of one moment
            try:
                found = connection.execute(
                    f"SELECT {RUN_COLUMNS}, key FROM runs WHERE run_id = ?", (run_id,)
                ).fetchone()
                if found is None:
                    return None
                pages = connection.execute("SELECT records FROM history WHERE run = ? ORDER BY first_seq", (found[-1],))
                return StoredRun(run_of(found), tuple(record for (page,) in pages for record in records_of(page)))
            finally:
                connection.execute("COMMIT")

        return await self._read(query)

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run after a sequence number."""

        def query(connection: sqlite3.Connection) -> tuple[Record, ...]:
            pages = connection.execute(
                "SELECT records FROM history WHERE run = (SELECT key FROM runs WHERE run_id = ?) AND last_seq > ?"
                " AND first_seq <= ? ORDER BY first_seq",
                (run_id, after_seq, after_seq + limit),
            )
            found = [record for (page,) in pages for record in records_of(page) if record.seq > after_seq]
            return tuple(found[:limit])

        return await self._read(query)

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""

        def query(connection: sqlite3.Connection) -> RunRow | None:
            found = connection.execute(f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            return None if found is None else run_of(found)

        return await self._read(query)

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, newest first."""
        statement, parameters = listing(query)

        def read(connection: sqlite3.Connection) -> RunPage:
            found = connection.execute(statement, parameters).fetchall()
            page = found[: query.limit]
            cursor = str(page[-1][-1]) if len(found) > query.limit else None
            return RunPage(tuple(run_of(row) for row in page), cursor)

        return await self._read(read)

    async def due(self, *, owner: str, now: int, limit: int) -> tuple[str, ...]:
        """Runs with a timer that is due and that nobody else alive is working on."""
        statement = (
            f"SELECT run_id FROM runs WHERE wake_at IS NOT NULL AND wake_at <= :now AND {_NOBODY_ELSE}"
            " ORDER BY wake_at LIMIT :limit"
        )
        parameters = {"now": now, "owner": owner, "limit": limit}
        return await self._read(lambda connection: _first_column(connection.execute(statement, parameters)))

    async def next_wake_at(self, *, after: int) -> int | None:
        """The soonest timer of any run."""

        def query(connection: sqlite3.Connection) -> int | None:
            (found,) = connection.execute("SELECT min(wake_at) FROM runs WHERE wake_at > ?", (after,)).fetchone()
            return int(found) if found is not None else None

        return await self._read(query)

    async def workers(self) -> tuple[WorkerRow, ...]:
        """Every worker, dead ones included."""
        statement = "SELECT worker_id, expires_at FROM workers ORDER BY worker_id"
        return await self._read(
            lambda connection: tuple(
                WorkerRow(worker_id=name, expires_at=until) for name, until in connection.execute(statement)
            )
        )

    async def definition(self, definition_hash: str) -> DefinitionRow | None:
        """A definition by hash."""
        return await self._definition("hash = ?", definition_hash)

    async def definition_named(self, name: str) -> DefinitionRow | None:
        """The newest definition of a name."""
        return await self._definition("hash = (SELECT hash FROM workflows WHERE name = ?)", name)

    async def _definition(self, condition: str, value: str) -> DefinitionRow | None:
        statement = f"SELECT hash, name, version, document, created_at FROM definitions WHERE {condition}"

        def query(connection: sqlite3.Connection) -> DefinitionRow | None:
            found = connection.execute(statement, (value,)).fetchone()
            return None if found is None else definition_of(found)

        return await self._read(query)

    async def definitions(self) -> tuple[DefinitionRow, ...]:
        """The newest definition of every name."""
        statement = (
            "SELECT d.hash, d.name, d.version, d.document, d.created_at FROM workflows w"
            " JOIN definitions d ON d.hash = w.hash ORDER BY w.name"
        )
        return await self._read(lambda connection: tuple(map(definition_of, connection.execute(statement))))

    async def schedules(self) -> tuple[ScheduleRow, ...]:
        """Every schedule."""
        statement = (
            "SELECT schedule_id, workflow_name, spec, next_at, paused, last_run_id FROM schedules ORDER BY schedule_id"
        )
        return await self._read(lambda connection: tuple(map(schedule_of, connection.execute(statement))))

    # --- writing ---------------------------------------------------------------------------------

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision with everything else that is waiting to be stored."""
        page = encode_records(write.records)
        return self.writer.submit(lambda connection: _append(connection, write, page))

    async def claim(self, *, owner: str, now: int, limit: int) -> tuple[str, ...]:
        """Take over runs with work whose owner is gone."""
        statement = (
            "UPDATE runs SET owner = :owner WHERE key IN (SELECT key FROM runs WHERE has_work = 1"
            " AND (owner IS NULL OR (owner <> :owner AND owner NOT IN"
            " (SELECT worker_id FROM workers WHERE expires_at > :now))) LIMIT :limit) RETURNING run_id"
        )
        parameters = {"owner": owner, "now": now, "limit": limit}
        return await self.writer.submit(lambda connection: _first_column(connection.execute(statement, parameters)))

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None) -> None:
        """Note that a run has, or no longer has, effects to perform."""
        await self._execute("UPDATE runs SET has_work = ?, owner = ? WHERE run_id = ?", (has_work, owner, run_id))

    async def beat(self, worker: WorkerRow) -> None:
        """Say that a worker is alive until a moment."""

        def apply(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO workers VALUES (?, ?) ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at",
                (worker.worker_id, worker.expires_at),
            )
            # A worker that ended and owns nothing any more can be forgotten.
            connection.execute(
                "DELETE FROM workers WHERE expires_at = 0"
                " AND worker_id NOT IN (SELECT owner FROM runs WHERE has_work = 1 AND owner IS NOT NULL)"
            )

        await self.writer.submit(apply)

    async def put_definition(self, definition: DefinitionRow) -> None:
        """Keep a definition and make it the newest of its name."""
        document = msgspec.json.encode(definition.document)

        def apply(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO definitions VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING",
                (definition.hash, definition.name, definition.version, document, definition.created_at),
            )
            connection.execute(
                "INSERT INTO workflows VALUES (?,?) ON CONFLICT DO UPDATE SET hash = excluded.hash",
                (definition.name, definition.hash),
            )

        await self.writer.submit(apply)

    async def put_schedule(self, schedule: ScheduleRow) -> None:
        """Keep a schedule."""
        await self._execute(
            "INSERT OR REPLACE INTO schedules VALUES (?,?,?,?,?,?)",
            (
                schedule.schedule_id,
                schedule.workflow_name,
                msgspec.json.encode(schedule.spec),
                schedule.next_at,
                schedule.paused,
                schedule.last_run_id,
            ),
        )

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Forget a schedule."""
        return await self._execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)) > 0

    async def delete_runs(self, run_ids: Sequence[str]) -> int:
        """Forget runs that have ended, with their histories."""

        def apply(connection: sqlite3.Connection) -> int:
            count = 0
            for run_id in run_ids:
                found = connection.execute(
                    "DELETE FROM runs WHERE run_id = ? AND terminal = 1 RETURNING key", (run_id,)
                ).fetchone()
                if found is not None:
                    count += 1
                    connection.execute("DELETE FROM history WHERE run = ?", found)
                    connection.execute("DELETE FROM labels WHERE run = ?", found)
            return count

        return await self.writer.submit(apply)

    async def _execute(self, statement: str, parameters: Sequence[object]) -> int:
        return await self.writer.submit(lambda connection: connection.execute(statement, parameters).rowcount)


def _first_column(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(str(found) for (found,) in cursor.fetchall())


def _append(connection: sqlite3.Connection, write: RunWrite, page: bytes) -> AppendOutcome:
    row = write.row
    if write.expected_seq == 0:
        inserted = connection.execute(
            _INSERT_RUN,
            (
                row.run_id,
                row.workflow_name,
                row.workflow_version,
                row.definition_hash,
                row.status,
                row.seq,
                row.created_at,
                row.updated_at,
                row.parent_run_id,
                msgspec.json.encode(row.labels).decode() if row.labels else None,
                row.wake_at,
                row.has_work,
                row.owner,
                row.terminal,
            ),
        )
        if inserted.rowcount == 0:
            return SequenceConflict()
        key = inserted.lastrowid
        for name, value in row.labels.items():
            connection.execute("INSERT INTO labels VALUES (?,?,?)", (name, value, key))
    else:
        found = connection.execute(
            _UPDATE_RUN,
            (
                row.status,
                row.seq,
                row.updated_at,
                row.wake_at,
                row.has_work,
                row.owner,
                row.terminal,
                row.run_id,
                write.expected_seq,
            ),
        ).fetchone()
        if found is None:
            return SequenceConflict()
        (key,) = found
    connection.execute(_INSERT_HISTORY, (key, write.expected_seq + 1, row.seq, page))
    return Appended()

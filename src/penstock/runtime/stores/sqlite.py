"""The SQLite store: one file, one writer thread with group commit, a few readers.

A decision is one row of history (all its records together) and one change of the index row, guarded by the sequence
number that it was made for. Rows of one run lie next to each other, and runs in order of creation, so that a step costs
the same in an empty file and in one with a million runs.

Above it: `app` and the conformance suite. Below it: `sqlite_writer`, `sqlite_schema`, `sqlite_rows`, `sqlite_listing`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
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
from penstock.runtime.stores.sqlite_errors import explain
from penstock.runtime.stores.sqlite_keys import KeyMaker
from penstock.runtime.stores.sqlite_listing import list_runs, prepare_reader
from penstock.runtime.stores.sqlite_rows import (
    RUN_COLUMNS,
    definition_of,
    encode_json,
    labels_of,
    records_of,
    run_of,
    schedule_of,
)
from penstock.runtime.stores.sqlite_schema import Synchronous, connect, open_for_writing
from penstock.runtime.stores.sqlite_writer import GroupCommitWriter
from penstock.runtime.stores.store_rules import check_write, folded

__all__ = ["SqliteStore"]

T = TypeVar("T")
_READERS = 4

_INSERT_RUN = (
    "INSERT INTO runs (key, run_id, workflow_name, workflow_version, definition_hash, status, seq, created_at,"
    " updated_at, parent_run_id, labels, wake_at, has_work, owner, terminal) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT DO NOTHING"
)
_UPDATE_RUN = (
    "UPDATE runs SET status = ?, seq = ?, updated_at = ?, wake_at = ?, has_work = ?, owner = ?, terminal = ?"
    " WHERE run_id = ? AND seq = ? RETURNING key"
)
_MOVE_RUN = "UPDATE runs SET seq = ?, updated_at = ? WHERE run_id = ? AND seq = ? RETURNING key"
_INSERT_HISTORY = "INSERT INTO history (run, first_seq, last_seq, records) VALUES (?,?,?,?)"
# An owner that let its lease run out counts as none.
_NOBODY_ELSE = (
    "(owner IS NULL OR owner = :owner OR owner NOT IN (SELECT worker_id FROM workers WHERE expires_at > :now))"
)
# A run that has ended, owes nothing, and whose parent cannot ask for it again.
_FORGETTABLE = (
    "terminal = 1 AND has_work = 0 AND NOT EXISTS"
    " (SELECT 1 FROM runs AS parent WHERE parent.run_id = runs.parent_run_id AND parent.terminal = 0)"
)
# A run and its child runs, whose ids begin with its own.
_IN_FAMILY = " AND (run_id = :family OR substr(run_id, 1, length(:family) + 1) = :family || ':')"


class SqliteStore:
    """One SQLite file. `synchronous` is FULL unless the operator knows better."""

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS,
    ) -> None:
        self.path = str(path)
        self._synchronous: Synchronous = synchronous
        self._busy_timeout_ms = busy_timeout_ms
        self._writer: GroupCommitWriter | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._reading: list[sqlite3.Connection] = []
        self._keys = KeyMaker()

    @property
    def writer(self) -> GroupCommitWriter:
        """The writer of an open store."""
        if self._writer is None:
            raise Unavailable("STORE_CLOSED", f"{self.path} is not open", "open the store first")
        return self._writer

    async def open(self) -> None:
        """Open or create the file and bring it to the current format."""
        if self.path.startswith((":memory:", "file:")) or not self.path:
            raise Rejected("STORE_PATH_INVALID", f"{self.path!r} is not the name of a file", "name a file on a disk")
        try:
            connection = await asyncio.to_thread(
                open_for_writing, self.path, synchronous=self._synchronous, busy_timeout_ms=self._busy_timeout_ms
            )
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="penstock-reader")
        self._writer = GroupCommitWriter(connection, self.path, busy_timeout_ms=self._busy_timeout_ms)

    async def close(self) -> None:
        """Commit what waits and close every connection, the writer's last: it leaves a single file behind."""
        writer, readers, self._writer, self._readers = self._writer, self._readers, None, None
        if writer is None or readers is None:
            return
        await writer.stop()
        await asyncio.to_thread(readers.shutdown)
        for connection in self._reading:
            connection.close()
        self._reading.clear()
        await asyncio.to_thread(writer.close)

    # --- reading ---------------------------------------------------------------------------------

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        if self._readers is None:
            raise Unavailable("STORE_CLOSED", f"{self.path} is not open", "open the store first")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._reading_with, query)

    def _reading_with(self, query: Callable[[sqlite3.Connection], T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        try:
            if connection is None:
                connection = connect(self.path, mode="ro", busy_timeout_ms=self._busy_timeout_ms)
                self._reading.append(connection)
                prepare_reader(connection)
                self._local.connection = connection
            return query(connection)
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        except UnicodeEncodeError:
            raise Rejected("TEXT_NOT_UNICODE", "the text has one half of a surrogate pair") from None

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
        after = max(after_seq, 0)

        def query(connection: sqlite3.Connection) -> tuple[Record, ...]:
            run = connection.execute("SELECT key FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if run is None:
                return ()
            # The page with the first record that is wanted, and those after it.
            pages = connection.execute(
                "SELECT records FROM history WHERE run = :run AND first_seq <= :last AND first_seq >="
                " (SELECT max(first_seq) FROM history WHERE run = :run AND first_seq <= :first) ORDER BY first_seq",
                {"run": run[0], "first": after + 1, "last": after + limit},
            )
            found = [record for (page,) in pages for record in records_of(page) if record.seq > after]
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
        return await self._read(lambda connection: list_runs(connection, query))

    async def due(self, *, owner: str, now: int, limit: int, family: str | None = None) -> tuple[str, ...]:
        """Runs with a timer that is due and that nobody else alive is working on."""
        statement = (
            f"SELECT run_id FROM runs WHERE wake_at IS NOT NULL AND wake_at <= :now AND {_NOBODY_ELSE}"
            f"{'' if family is None else _IN_FAMILY} ORDER BY wake_at LIMIT :limit"
        )
        parameters = {"now": now, "owner": owner, "limit": limit, **_family(family)}
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
        check_write(write)
        page = encode_json(write.records)
        return self.writer.submit(lambda connection: _append(connection, write, page, self._keys))

    async def claim(
        self, *, owner: str, now: int, limit: int, begun: bool | None = None, family: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with work whose owner is gone."""
        chosen = {None: "", True: " AND owner IS NOT NULL", False: " AND owner IS NULL"}[begun]
        statement = (
            "UPDATE runs SET owner = :owner WHERE key IN (SELECT key FROM runs WHERE has_work = 1"
            " AND (owner IS NULL OR (owner <> :owner AND owner NOT IN"
            " (SELECT worker_id FROM workers WHERE expires_at > :now)))"
            f"{chosen}{'' if family is None else _IN_FAMILY} LIMIT :limit) RETURNING run_id"
        )
        parameters = {"owner": owner, "now": now, "limit": limit, **_family(family)}
        return await self.writer.submit(lambda connection: _first_column(connection.execute(statement, parameters)))

    async def has_unclaimed(self, *, family: str | None = None) -> bool:
        """True when a run has work and no owner."""
        chosen = "" if family is None else _IN_FAMILY
        statement = f"SELECT 1 FROM runs WHERE has_work = 1 AND owner IS NULL{chosen} LIMIT 1"
        parameters = _family(family)
        return await self._read(lambda connection: connection.execute(statement, parameters).fetchone() is not None)

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
            # A worker that ended, or was not heard of for long, and owns nothing any more can be forgotten.
            connection.execute(
                "DELETE FROM workers WHERE (expires_at = 0 OR expires_at < ?) AND NOT EXISTS"
                " (SELECT 1 FROM runs WHERE owner = worker_id AND has_work = 1)",
                (worker.expires_at - limits.WORKER_FORGOTTEN_AFTER_MS,),
            )

        await self.writer.submit(apply)

    async def put_definition(self, definition: DefinitionRow) -> None:
        """Keep a definition and make it the newest of its name."""
        document = encode_json(definition.document)

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
                encode_json(schedule.spec),
                schedule.next_at,
                schedule.paused,
                schedule.last_run_id,
            ),
        )

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Forget a schedule."""
        return await self._execute("DELETE FROM schedules WHERE schedule_id = ?", (schedule_id,)) > 0

    async def delete_runs(self, run_ids: Sequence[str]) -> int:
        """Forget runs that have ended and that nobody needs any more, with their histories."""
        statement = f"DELETE FROM runs WHERE run_id = ? AND {_FORGETTABLE} RETURNING key, labels"

        def apply(connection: sqlite3.Connection) -> int:
            return sum(_delete(connection, statement, run_id) for run_id in run_ids)

        return await self.writer.submit(apply, is_long=True)

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Forget the runs that ended longest ago, in one bounded piece."""
        chosen = (
            f"SELECT key, seq FROM runs INDEXED BY runs_ended WHERE {_FORGETTABLE} AND updated_at < ?"
            " ORDER BY updated_at LIMIT ?"
        )
        statement = "DELETE FROM runs WHERE key = ? RETURNING key, labels"

        def apply(connection: sqlite3.Connection) -> int:
            count = records = 0
            for key, seq in connection.execute(chosen, (before, limit)).fetchall():
                # A few long histories are as much work as many short ones.
                if count and records + seq > limits.RETENTION_BATCH_RECORDS_MAX:
                    break
                count += _delete(connection, statement, key)
                records += seq
            return count

        return await self.writer.submit(apply, is_long=True)

    async def _execute(self, statement: str, parameters: Sequence[object]) -> int:
        return await self.writer.submit(lambda connection: connection.execute(statement, parameters).rowcount)


def _family(family: str | None) -> dict[str, str]:
    return {} if family is None else {"family": family}


def _first_column(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(str(found) for (found,) in cursor.fetchall())


def _append(connection: sqlite3.Connection, write: RunWrite, page: bytes, keys: KeyMaker) -> AppendOutcome:
    row = write.row
    if write.expected_seq == 0:
        key = _insert(connection, row, keys)
    elif write.same_index:
        moved = connection.execute(_MOVE_RUN, (row.seq, row.updated_at, row.run_id, write.expected_seq)).fetchone()
        key = None if moved is None else moved[0]
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
        key = None if found is None else found[0]
    if key is None:
        return SequenceConflict()
    connection.execute(_INSERT_HISTORY, (key, write.expected_seq + 1, row.seq, page))
    return Appended()


def _insert(connection: sqlite3.Connection, row: RunRow, keys: KeyMaker) -> int | None:
    """The key of a new run; None when there is a run with its id."""
    columns = (
        row.run_id,
        row.workflow_name,
        row.workflow_version,
        row.definition_hash,
        row.status,
        row.seq,
        row.created_at,
        row.updated_at,
        row.parent_run_id,
        encode_json(row.labels).decode() if row.labels else None,
        row.wake_at,
        row.has_work,
        row.owner,
        row.terminal,
    )
    key = keys.next_key(row.created_at)
    while connection.execute(_INSERT_RUN, (key, *columns)).rowcount == 0:
        if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (row.run_id,)).fetchone() is not None:
            return None
        # Another process, or an earlier life of this one, has used the key.
        key = keys.free_key(connection, row.created_at)
    for name, value in row.labels.items():
        connection.execute("INSERT INTO labels VALUES (?,?,?,?)", (folded(value), name, key, value))
    return key


def _delete(connection: sqlite3.Connection, statement: str, name: str | int) -> int:
    found = connection.execute(statement, (name,)).fetchall()
    for key, labels in found:
        connection.execute("DELETE FROM history WHERE run = ?", (key,))
        for label, value in labels_of(labels).items():
            connection.execute(
                "DELETE FROM labels WHERE folded = ? AND name = ? AND run = ?", (folded(value), label, key)
            )
    return len(found)

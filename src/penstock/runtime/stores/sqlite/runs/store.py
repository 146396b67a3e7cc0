"""The run store in SQLite.

A decision is one row of history (all its records together) and one update of the index row, guarded by the sequence
number that the decision is based on. Rows of one run are adjacent, and runs are in order of creation. So a step costs
the same in an empty file and in one with a million runs.

Above it: `app` and the conformance suite. Below it: `database`, `history`, and one module for each kind of table.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from penstock.base import limits
from penstock.base.errors import CorruptHistory, Unavailable
from penstock.base.ids import chain_of
from penstock.definitions.model import AgentLimits
from penstock.engine.records import Record
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    DEFAULT_TENANT,
    AnyHash,
    AppendOutcome,
    ChangePage,
    DefinitionOutcome,
    DefinitionPage,
    DefinitionPut,
    DefinitionRefused,
    DefinitionRow,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
    RunWrite,
    ScheduleRow,
    StoredRun,
    WorkerRow,
)
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.spending import RunSpending, Spent, SpentLimit
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.history.reader import load_run, read_history
from penstock.runtime.stores.sqlite.history.shapes import ShapeReader
from penstock.runtime.stores.sqlite.runs import definitions as stored_definitions
from penstock.runtime.stores.sqlite.runs import schedules, spending, workers
from penstock.runtime.stores.sqlite.runs.appending import (
    DELETED_COLUMNS,
    WriterState,
    append_runs,
    delete_run,
    encode_append,
    small_append,
)
from penstock.runtime.stores.sqlite.runs.changes import read_changes
from penstock.runtime.stores.sqlite.runs.definitions import MISSED, RecentDefinitions
from penstock.runtime.stores.sqlite.runs.listing import is_short, list_runs
from penstock.runtime.stores.sqlite.schema.files import Synchronous
from penstock.runtime.stores.sqlite.schema.vacuum import return_free_pages
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.codec import RUN_COLUMNS, encode_json, run_of
from penstock.runtime.tables.outcomes import check_write

__all__ = ["SqliteRunStore"]

_RUN_ROW = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?"

# An owner that is no longer registered counts as none.
_NOBODY_ELSE = "(owner IS NULL OR owner = :owner OR owner NOT IN (SELECT worker_id FROM workers))"
# A run that has ended, has no pending work, whose parent cannot ask for it again, and that is not the first of a chain
# with later runs left. The ids of those lie in the index between two bounds that are easy to compute.
_DELETABLE = (
    "terminal = 1 AND has_work = 0 AND NOT EXISTS"
    " (SELECT 1 FROM runs AS parent WHERE parent.run_id = runs.parent_run_id AND parent.terminal = 0)"
    " AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.run_id >= runs.run_id || '~1'"
    " AND later.run_id < runs.run_id || '~:'"
    " AND substr(later.run_id, length(runs.run_id) + 2) NOT GLOB '*[^0-9]*')"
)
_RUNS = "runs"
"""The kind of runs that could not be deleted."""
_LABELS = RUN_COLUMNS.replace(" ", "").split(",").index("labels")
_NOT_ASIDE = "run_id NOT IN (SELECT value FROM json_each(?))"
# The runs of a chain and their child runs. Their ids start with the id of the first run.
_IN_RUN_TREE = (
    " AND (run_id = :root_run_id OR substr(run_id, 1, length(:root_run_id) + 1) = :root_run_id || ':' OR"
    " substr(run_id, 1, length(:root_run_id) + 1) = :root_run_id || '~' AND"
    " substr(run_id, length(:root_run_id) + 2, 1) BETWEEN '1' AND '9')"
)


class SqliteRunStore:
    """The run store in one SQLite file. `synchronous` is FULL unless the operator chooses otherwise."""

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS,
    ) -> None:
        self.database = SqliteDatabase(path, synchronous=synchronous, busy_timeout_ms=busy_timeout_ms)
        """Shared with the platform store in the same file."""
        self._reset_caches()

    def _reset_caches(self) -> None:
        self._state, self._shapes, self._definitions = WriterState(), ShapeReader(), RecentDefinitions()
        self._append_runs = partial(append_runs, state=self._state)  # one object: the writer groups jobs by it

    async def open(self) -> None:
        """Open or create the file and migrate it to the current format."""
        self._reset_caches()  # the file may be a different one than before
        await self.database.open(self._state)

    async def close(self) -> None:
        """Commit what is waiting and close the file."""
        await self.database.close()

    # --- reading ---------------------------------------------------------------------------------

    async def load(self, run_id: str) -> StoredRun | None:
        """A run with its whole history."""
        return await self.database.read_raw(lambda connection: load_run(connection, run_id, self._shapes))

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Records of a run after a sequence number."""
        return await self.database.read_raw(
            lambda connection: read_history(connection, run_id, self._shapes, after_seq=max(after_seq, 0), limit=limit)
        )

    async def row(self, run_id: str) -> RunRow | None:
        """The index row of a run."""

        def query(connection: sqlite3.Connection) -> RunRow | None:
            found = connection.execute(_RUN_ROW, (run_id,)).fetchall()
            return run_of(found[0]) if found else None

        return await self.database.read_quickly(query)

    async def positions(self, run_ids: Sequence[str]) -> dict[str, RunPosition]:
        """The positions of some runs."""
        statement = "SELECT run_id, seq, terminal FROM runs WHERE run_id IN (SELECT value FROM json_each(?))"
        listed = encode_json(list(run_ids)).decode()

        def query(connection: sqlite3.Connection) -> dict[str, RunPosition]:
            found = connection.execute(statement, (listed,))
            return {run_id: RunPosition(seq=seq, terminal=bool(terminal)) for run_id, seq, terminal in found}

        return await self.database.read_raw(query)

    def changed(self, *topics: Topic) -> Mark:
        """A number for each topic that changes once any process has changed it."""
        return self.database.changed(*topics)

    async def changes(self, *, after: str | None, since: int, limit: int) -> ChangePage:
        """What any process stored after a position, in order."""
        return await self.database.read_raw(
            lambda connection: read_changes(connection, after=after, since=since, limit=limit)
        )

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Runs by filter, newest first."""
        if is_short(query):
            return await self.database.read_quickly(lambda connection: list_runs(connection, query))
        return await self.database.read_raw(lambda connection: list_runs(connection, query))

    async def due(self, *, owner: str, now: int, limit: int, root_run_id: str | None = None) -> tuple[str, ...]:
        """Runs with a due timer that no other registered worker owns."""
        statement = (
            f"SELECT run_id FROM runs WHERE wake_at IS NOT NULL AND wake_at <= :now AND {_NOBODY_ELSE}"
            f"{'' if root_run_id is None else _IN_RUN_TREE} ORDER BY wake_at LIMIT :limit"
        )
        parameters = {"now": now, "owner": owner, "limit": limit, **_run_tree(root_run_id)}
        return await self.database.read_raw(lambda connection: _first_column(connection.execute(statement, parameters)))

    async def next_wake_at(self, *, after: int) -> int | None:
        """The soonest timer of any run."""

        def query(connection: sqlite3.Connection) -> int | None:
            (found,) = connection.execute("SELECT min(wake_at) FROM runs WHERE wake_at > ?", (after,)).fetchone()
            return int(found) if found is not None else None

        return await self.database.read_raw(query)

    async def timers_ahead(self, *, after: int, limit: int) -> tuple[RunRow, ...]:
        """Runs whose last record and next timer are both later than a given time."""
        chosen = "WHERE wake_at > :after AND updated_at > :after ORDER BY wake_at LIMIT :limit"
        statement = f"SELECT {RUN_COLUMNS} FROM runs {chosen}"
        parameters = {"after": after, "limit": limit}
        return await self.database.read_raw(
            lambda connection: tuple(map(run_of, connection.execute(statement, parameters)))
        )

    async def workers(self) -> tuple[WorkerRow, ...]:
        """Every registered worker."""
        return await self.database.read_raw(workers.workers)

    async def definition(self, definition_hash: str, *, tenant: str | None = None) -> DefinitionRow | None:
        """A definition by hash."""
        return await self.database.read_raw(
            lambda connection: stored_definitions.definition_by_hash(connection, definition_hash, tenant)
        )

    async def definition_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> DefinitionRow | None:
        """The newest definition of a name."""
        known = await self.database.read_quickly(partial(self._definitions.known, name=name, tenant=tenant))
        if known is MISSED:
            return await self.database.read_raw(partial(self._definitions.read, name=name, tenant=tenant))
        return known

    async def definition_versions(
        self, name: str, *, tenant: str = DEFAULT_TENANT, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """The versions of a name, newest first."""
        return await self.database.read_raw(
            lambda connection: stored_definitions.definition_versions(
                connection, name, tenant, limit=limit, cursor=cursor
            )
        )

    async def definitions(self, *, tenant: str | None = DEFAULT_TENANT) -> tuple[DefinitionRow, ...]:
        """The newest definition of every name."""
        return await self.database.read_raw(
            lambda connection: stored_definitions.newest_definitions(connection, tenant)
        )

    async def list_definitions(
        self, *, tenant: str | None = DEFAULT_TENANT, prefix: str | None = None, limit: int, cursor: str | None = None
    ) -> DefinitionPage:
        """The newest definition of each name, in pages ordered by name."""
        return await self.database.read_raw(
            lambda connection: stored_definitions.definitions_page(
                connection, tenant, prefix or "", limit=limit, cursor=cursor
            )
        )

    async def schedules(self, *, tenant: str | None = None) -> tuple[ScheduleRow, ...]:
        """Every schedule, or those of a tenant."""
        return await self.database.read_raw(lambda connection: schedules.schedules(connection, tenant))

    # --- writing ---------------------------------------------------------------------------------

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision in the next group commit."""
        check_write(write)
        if write.expected_seq == 0 and self.database.damage is not None:
            message = f"{self.database.path} is damaged, so no run is started"
            raise Unavailable(
                "STORE_CORRUPT", message, "restore a backup; `penstock server check` shows all of the damage"
            )
        append = small_append(write)
        if append is None:
            return self._append_large(write)
        writer = self.database.open_writer or self.database.writer
        return writer.submit_with_others(self._append_runs, append, call=write.call)

    async def _append_large(self, write: RunWrite) -> AppendOutcome:
        append = await asyncio.to_thread(encode_append, write)
        return await self.database.writer.submit_with_others(self._append_runs, append, call=write.call)

    async def claim(
        self, *, owner: str, limit: int, begun: bool | None = None, root_run_id: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with pending work whose owner is gone."""
        chosen = {None: "", True: " AND owner IS NOT NULL", False: " AND owner IS NULL"}[begun]
        statement = (
            "UPDATE runs SET owner = :owner, epoch = epoch + 1 WHERE key IN (SELECT key FROM runs WHERE has_work = 1"
            " AND (owner IS NULL OR (owner <> :owner AND owner NOT IN (SELECT worker_id FROM workers)))"
            f"{chosen}{'' if root_run_id is None else _IN_RUN_TREE} LIMIT :limit) RETURNING run_id"
        )
        parameters = {"owner": owner, "limit": limit, **_run_tree(root_run_id)}
        return await self.database.writer.submit(
            lambda connection: _first_column(connection.execute(statement, parameters))
        )

    async def has_unclaimed(self, *, root_run_id: str | None = None) -> bool:
        """True if a run has pending work and no owner."""
        chosen = "" if root_run_id is None else _IN_RUN_TREE
        statement = f"SELECT 1 FROM runs WHERE has_work = 1 AND owner IS NULL{chosen} LIMIT 1"
        parameters = _run_tree(root_run_id)
        return await self.database.read_raw(
            lambda connection: connection.execute(statement, parameters).fetchone() is not None
        )

    async def owned(self, *, owner: str, after: int, limit: int) -> tuple[tuple[int, str, int], ...]:
        """Runs with pending work that an owner holds."""
        statement = (
            "SELECT key, run_id, seq FROM runs WHERE has_work = 1 AND owner = ? AND key > ? ORDER BY key LIMIT ?"
        )
        return await self.database.read_raw(
            lambda connection: tuple(connection.execute(statement, (owner, after, limit)))
        )

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None, expected_epoch: int) -> bool:
        """Set or clear the mark that a run has effects to perform."""
        statement = "UPDATE runs SET has_work = ?, owner = ? WHERE run_id = ? AND epoch = ?"
        return await self._execute(statement, (has_work, owner, run_id, expected_epoch)) > 0

    async def register_worker(self, worker_id: str, *, at: int) -> None:
        """Register a worker."""
        await self.database.writer.submit(lambda connection: workers.register_worker(connection, worker_id, at))

    async def heartbeat(self, worker_id: str, *, at: int) -> bool:
        """Renew the heartbeat of a registered worker."""
        return await self.database.writer.submit(lambda connection: workers.heartbeat(connection, worker_id, at))

    async def remove_worker(self, worker_id: str, *, beats: int | None = None) -> bool:
        """Remove a worker from the list."""
        return await self.database.writer.submit(lambda connection: workers.remove_worker(connection, worker_id, beats))

    async def put_definition(
        self,
        definition: DefinitionRow,
        *,
        expected_hash: str | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> DefinitionOutcome:
        """Store a definition and make it the newest of its name."""
        put, document = stored_definitions.put_definition, encode_json(definition.document)
        job = partial(put, definition=definition, document=document, expected_hash=expected_hash)
        return await self.database.writer.submit(job, call=call)

    async def put_definitions(
        self, definitions: Sequence[tuple[DefinitionRow, str | None]], *, call: CallRecord | None = None
    ) -> DefinitionPut | DefinitionRefused:
        """Store definitions, all of them or none."""
        given = [(row, encode_json(row.document), expected_hash) for row, expected_hash in definitions]
        job = partial(stored_definitions.put_definitions, definitions=given)
        return await self.database.writer.submit(job, call=call, is_long=len(given) > 1)

    async def delete_definition(
        self,
        name: str,
        *,
        tenant: str = DEFAULT_TENANT,
        expected_hash: str | AnyHash = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Hide a name."""
        job = partial(stored_definitions.delete_definition, name=name, tenant=tenant, expected_hash=expected_hash)
        return await self.database.writer.submit(job, call=call)

    async def put_schedule(
        self,
        schedule: ScheduleRow,
        *,
        expected: ScheduleRow | AnyHash | None = ANY,
        call: CallRecord | None = None,
    ) -> bool:
        """Store a schedule if the current one is as expected."""
        spec = encode_json(schedule.spec)
        job = partial(schedules.put_schedule, schedule=schedule, spec=spec, expected=expected)
        return await self.database.writer.submit(job, call=call)

    async def delete_schedule(self, schedule_id: str, *, call: CallRecord | None = None) -> bool:
        """Delete a schedule."""
        job = partial(schedules.delete_schedule, schedule_id=schedule_id)
        return await self.database.writer.submit(job, call=call)

    async def delete_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete ended runs that no other run needs any more, with their histories."""
        statement = f"DELETE FROM runs WHERE run_id = ? AND {_DELETABLE} RETURNING {DELETED_COLUMNS}"

        def apply(connection: sqlite3.Connection) -> list[int]:
            return [delete_run(connection, statement, run_id, self._state) for run_id in run_ids]

        def happened(deleted: list[int]) -> bool:
            return deleted[:1] == [1]

        deleted = await self.database.writer.submit(apply, call=call, happened=happened, is_long=True)
        return sum(deleted)

    async def forget_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete runs that are past their time. Those that cannot be deleted are set aside."""
        statement = f"DELETE FROM runs WHERE run_id = ? AND {_DELETABLE} RETURNING {DELETED_COLUMNS}"

        def apply(connection: sqlite3.Connection) -> int:
            count = self.database.set_aside.delete_each(
                SqliteTransaction(connection),
                _RUNS,
                run_ids,
                lambda run_id: delete_run(connection, statement, run_id, self._state),
            )
            return_free_pages(connection)
            return count

        return await self.database.writer.submit(apply, call=call, happened=bool, is_long=True)

    async def ended_runs(self, *, before: int, limit: int) -> tuple[RunRow, ...]:
        """The runs that ended longest ago and can be deleted, as many as can be deleted quickly."""
        chosen = f"INDEXED BY runs_ended WHERE {_DELETABLE} AND updated_at < ? AND {_NOT_ASIDE}"
        statement = f"SELECT {RUN_COLUMNS} FROM runs {chosen} ORDER BY updated_at LIMIT ?"
        aside = json.dumps(self.database.set_aside.names(_RUNS))

        def query(connection: sqlite3.Connection) -> tuple[RunRow, ...]:
            rows = [_ended_run(found) for found in connection.execute(statement, (before, aside, limit))]
            weights = accumulate(row.seq for row in rows)
            fitting = sum(weight <= limits.RETENTION_BATCH_RECORDS_MAX for weight in weights)
            return tuple(rows[: max(1, fitting)])

        return await self.database.read_raw(query)

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Delete the runs that ended longest ago, a bounded number at a time."""
        chosen = (
            f"SELECT run_id, seq FROM runs INDEXED BY runs_ended WHERE {_DELETABLE} AND updated_at < ?"
            f" AND {_NOT_ASIDE} ORDER BY updated_at LIMIT ?"
        )
        statement = f"DELETE FROM runs WHERE run_id = ? RETURNING {DELETED_COLUMNS}"
        set_aside = self.database.set_aside

        def apply(connection: sqlite3.Connection) -> int:
            rows = connection.execute(chosen, (before, json.dumps(set_aside.names(_RUNS)), limit)).fetchall()
            # A few long histories are as much work as many short ones.
            weights = accumulate(seq for _, seq in rows)
            fitting = sum(weight <= limits.RETENTION_BATCH_RECORDS_MAX for weight in weights)
            names = [run_id for run_id, _ in rows[: max(1, fitting)]]
            count = set_aside.delete_each(
                SqliteTransaction(connection),
                _RUNS,
                names,
                lambda run_id: delete_run(connection, statement, run_id, self._state),
            )
            return_free_pages(connection)
            return count

        return await self.database.writer.submit(apply, is_long=True)

    async def spend(
        self, run_id: str, amount: Spent, *, at: int, limits: AgentLimits | None = None, checked: bool = False
    ) -> SpentLimit | None:
        """Count what a run uses, for it and for every run above it."""
        job = partial(spending.spend, run_id=run_id, amount=amount, at=at, limits=limits, checked=checked)
        return await self.database.writer.submit(job)

    async def spending(self, run_id: str) -> RunSpending | None:
        """What was counted for a run."""
        return await self.database.read_raw(partial(spending.read_spending, run_id=run_id))

    async def _execute(self, statement: str, parameters: Sequence[object]) -> int:
        return await self.database.writer.submit(lambda connection: connection.execute(statement, parameters).rowcount)


def _ended_run(found: Sequence[Any]) -> RunRow:
    try:
        return run_of(found)
    except CorruptHistory:  # without the labels; what cannot be read cannot be deleted either, which says why
        return run_of((*found[:_LABELS], None, *found[_LABELS + 1 :]))


def _run_tree(root_run_id: str | None) -> dict[str, str]:
    return {} if root_run_id is None else {"root_run_id": chain_of(root_run_id)}


def _first_column(cursor: sqlite3.Cursor) -> tuple[str, ...]:
    return tuple(str(found) for (found,) in cursor.fetchall())

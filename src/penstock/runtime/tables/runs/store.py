"""Runs: their histories, their index, and who performs their work.

A decision is one row of history (all its records together) and one update of the index row, guarded by the sequence
number that the decision is based on. Rows of one run are adjacent, and runs are in order of creation. So a step costs
the same in an empty database and in one with a million runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from penstock.base.errors import Unavailable
from penstock.base.ids import chain_of
from penstock.engine.records import Record
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    AppendOutcome,
    ChangePage,
    RunPage,
    RunPosition,
    RunQuery,
    RunRow,
    RunWrite,
    StoredRun,
)
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.ports.transactions import Reader, Row, Transaction, any_of
from penstock.runtime.tables.codec import RUN_COLUMNS, run_of
from penstock.runtime.tables.definitions import Definitions
from penstock.runtime.tables.outcomes import check_write
from penstock.runtime.tables.runs.appending import Appender, encode_append, small_append
from penstock.runtime.tables.runs.deleting import delete_ended, delete_runs, forget_runs, list_ended
from penstock.runtime.tables.runs.history import load_run, read_history
from penstock.runtime.tables.runs.listing import is_short, list_runs
from penstock.runtime.tables.runs.shapes import ShapeReader

__all__ = ["RunStore"]

_RUN_ROW = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?"
_IDS_AT_ONCE = 500
# An owner that is no longer registered counts as none.
_NOBODY_ELSE = "(owner IS NULL OR owner = :owner OR owner NOT IN (SELECT worker_id FROM workers))"
_CLAIMABLE = "has_work = 1 AND (owner IS NULL OR (owner <> :owner AND owner NOT IN (SELECT worker_id FROM workers)))"
# The runs of a chain and their child runs. Their ids start with the id of the first run.
_IN_RUN_TREE = (
    " AND (run_id = :root_run_id OR substr(run_id, 1, length(:root_run_id) + 1) = :root_run_id || ':' OR"
    " substr(run_id, 1, length(:root_run_id) + 1) = :root_run_id || '~' AND"
    " substr(run_id, length(:root_run_id) + 2, 1) BETWEEN '1' AND '9')"
)


class RunStore:
    """Runs and definitions of a database, with what was read of them before."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.definitions = Definitions(database)
        self._appender, self._shapes = Appender(database.run_index), ShapeReader()
        self._append_all = self._appender.append  # one object: the driver groups items by it

    async def open(self) -> None:
        """Open the database, and forget what was read before: it may be another one."""
        self.definitions.clear_cache()
        self._appender, self._shapes = Appender(self.database.run_index), ShapeReader()
        self._append_all = self._appender.append
        await self.database.open()

    async def close(self) -> None:
        """Finish the work in progress and close the database."""
        await self.database.close()

    # --- reading ---------------------------------------------------------------------------------

    async def load(self, run_id: str) -> StoredRun | None:
        """Return a run with its whole history."""
        return await self.database.read(lambda reader: load_run(reader, run_id, self._shapes))

    async def history(self, run_id: str, *, after_seq: int = 0, limit: int = 1_000) -> tuple[Record, ...]:
        """Return records of a run after a sequence number."""
        return await self.database.read(
            lambda reader: read_history(reader, run_id, self._shapes, after_seq=max(after_seq, 0), limit=limit)
        )

    async def row(self, run_id: str) -> RunRow | None:
        """Return the index row of a run."""
        found = await self.database.one(_RUN_ROW, (run_id,))
        return None if found is None else run_of(found)

    async def positions(self, run_ids: Sequence[str]) -> dict[str, RunPosition]:
        """Return the positions of some runs, in one read; runs that do not exist are omitted."""
        listed = list(dict.fromkeys(run_ids))

        def query(reader: Reader) -> dict[str, RunPosition]:
            positions: dict[str, RunPosition] = {}
            for start in range(0, len(listed), _IDS_AT_ONCE):
                chosen = listed[start : start + _IDS_AT_ONCE]
                found = reader.rows(f"SELECT run_id, seq, terminal FROM runs WHERE {any_of('run_id', chosen)}", chosen)
                positions |= {run_id: RunPosition(seq=seq, terminal=bool(ended)) for run_id, seq, ended in found}
            return positions

        return await self.database.read(query)

    def changed(self, *topics: Topic) -> Mark:
        """Return a number for each topic that changes once any process has changed it."""
        return self.database.changed(*topics)

    async def changes(self, *, after: str | None, since: int, limit: int) -> ChangePage:
        """Return what any process stored after a position, in order. See `RunIndex.read_changes`."""
        index = self.database.run_index
        return await self.database.read(
            lambda reader: index.read_changes(reader, after=after, since=since, limit=limit)
        )

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Return runs by filter, newest first, from an index."""
        index = self.database.run_index
        return await self.database.read(lambda reader: list_runs(reader, index, query), is_short=is_short(query))

    async def ended_runs(self, *, before: int, limit: int) -> tuple[RunRow, ...]:
        """Return at most `limit` runs that `forget_runs` would delete, oldest end first; fewer if they are long."""
        return await list_ended(self.database, before=before, limit=limit)

    # --- writing ---------------------------------------------------------------------------------

    def append(self, write: RunWrite) -> Awaitable[AppendOutcome]:
        """Store a decision. Returns at once; the result arrives when the decision is durable.

        It is stored whether the caller waits for the result or not.
        """
        check_write(write)
        if write.expected_seq == 0 and self.database.damage is not None:
            hint = "restore a backup; `penstock server check` shows all of the damage"
            raise Unavailable("STORE_CORRUPT", "the database is damaged, so no run is started", hint)
        append = small_append(write)
        if append is None:
            return self._append_large(write)
        return self.database.write_together(self._append_all, append, call=write.call)

    async def _append_large(self, write: RunWrite) -> AppendOutcome:
        append = await asyncio.to_thread(encode_append, write)
        return await self.database.write_together(self._append_all, append, call=write.call)

    async def delete_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete runs and return how many were deleted. `call` is the record about the first one."""
        return await delete_runs(self.database, run_ids, call=call)

    async def forget_runs(self, run_ids: Sequence[str], *, call: CallRecord | None = None) -> int:
        """Delete runs like `delete_runs`, but set those aside that are damaged. `call` is about all of them."""
        return await forget_runs(self.database, run_ids, call=call)

    async def delete_ended(self, *, before: int, limit: int) -> int:
        """Delete runs that ended before a time; oldest end first, at most `limit`."""
        return await delete_ended(self.database, before=before, limit=limit)

    # --- work ------------------------------------------------------------------------------------

    async def due(self, *, owner: str, now: int, limit: int, root_run_id: str | None = None) -> tuple[str, ...]:
        """Return runs with a due timer that no other registered worker owns; `root_run_id` as for `claim`."""
        statement = (
            f"SELECT run_id FROM runs WHERE wake_at IS NOT NULL AND wake_at <= :now AND {_NOBODY_ELSE}"
            f"{_tree_condition(root_run_id)} ORDER BY wake_at LIMIT :limit"
        )
        values = {"now": now, "owner": owner, "limit": limit, **_run_tree(root_run_id)}
        return tuple([run_id for (run_id,) in await self.database.rows(statement, values)])

    async def next_wake_at(self, *, after: int) -> int | None:
        """Return the time of the soonest timer of any run."""
        ((found,),) = await self.database.rows("SELECT min(wake_at) FROM runs WHERE wake_at > ?", (after,))
        return None if found is None else int(found)

    async def timers_ahead(self, *, after: int, limit: int) -> tuple[RunRow, ...]:
        """Return runs whose last record and next timer both lie after a time: the traces of a clock that was ahead."""
        chosen = "WHERE wake_at > :after AND updated_at > :after ORDER BY wake_at LIMIT :limit"
        found = await self.database.rows(f"SELECT {RUN_COLUMNS} FROM runs {chosen}", {"after": after, "limit": limit})
        return tuple(map(run_of, found))

    async def claim(
        self, *, owner: str, limit: int, begun: bool | None = None, root_run_id: str | None = None
    ) -> tuple[str, ...]:
        """Take over runs with work whose owner is not a registered worker, and return their ids.

        Each begins a new epoch. `begun` chooses: True for runs that had an owner, who may have begun the work; False
        for runs that had no owner since their work came up. With `root_run_id`, only that run and its child runs.
        """
        chosen = {None: "", True: " AND owner IS NOT NULL", False: " AND owner IS NULL"}[begun]
        tree = _tree_condition(root_run_id)
        # The condition is here twice: a decision may have changed a run since it was chosen.
        statement = (
            f"UPDATE runs SET owner = :owner, epoch = epoch + 1 WHERE {_CLAIMABLE}{chosen} AND key IN"
            f" (SELECT key FROM runs WHERE {_CLAIMABLE}{chosen}{tree} LIMIT :limit) RETURNING run_id"
        )
        values = {"owner": owner, "limit": limit, **_run_tree(root_run_id)}

        def change(transaction: Transaction) -> list[Row]:
            transaction.lock("claims")  # two workers that choose at once would choose the same runs
            return transaction.rows(statement, values)

        return tuple([run_id for (run_id,) in await self.database.write(change)])

    async def has_unclaimed(self, *, root_run_id: str | None = None) -> bool:
        """Whether a run has work and no owner, because a process that performs no work moved it. See `claim`."""
        statement = f"SELECT 1 FROM runs WHERE has_work = 1 AND owner IS NULL{_tree_condition(root_run_id)} LIMIT 1"
        return bool(await self.database.rows(statement, _run_tree(root_run_id)))

    async def owned(self, *, owner: str, after: int, limit: int) -> tuple[tuple[int, str, int], ...]:
        """Return an owner's runs with work after a position, in order: position, id, sequence number."""
        statement = (
            "SELECT key, run_id, seq FROM runs WHERE has_work = 1 AND owner = ? AND key > ? ORDER BY key LIMIT ?"
        )
        found = await self.database.rows(statement, (owner, after, limit))
        return tuple([(key, run_id, seq) for key, run_id, seq in found])

    async def set_work(self, run_id: str, *, has_work: bool, owner: str | None, expected_epoch: int) -> bool:
        """Note whether a run has effects to perform; return False if another process took it over since."""
        statement, values = (
            "UPDATE runs SET has_work = ?, owner = ? WHERE run_id = ? AND epoch = ?",
            (int(has_work), owner, run_id, expected_epoch),
        )
        return await self.database.write(lambda transaction: transaction.execute(statement, values) > 0)


def _tree_condition(root_run_id: str | None) -> str:
    return "" if root_run_id is None else _IN_RUN_TREE


def _run_tree(root_run_id: str | None) -> dict[str, str]:
    return {} if root_run_id is None else {"root_run_id": chain_of(root_run_id)}

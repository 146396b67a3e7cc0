"""Loads, large merges and flattening, piece by piece: many short jobs of the writer, and checks on a reader.

Between two pieces everybody else's jobs have their turn.

Above it: `store`. Below it: `staging`, `loads`, `merging`, `flattening`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TypeVar

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.graph.records import GraphRecord
from penstock.graph.sql.layout import Table
from penstock.graph.versions.entities import LoadMode, MergeOutcome, Violation
from penstock.runtime.ports.graphs import (
    BranchBusy,
    BranchesMerged,
    Flattened,
    GraphCall,
    GraphRef,
    HeadMoved,
    LoadNotFound,
    LoadProgress,
    LoadPublished,
    LoadRefused,
    Lost,
    MergeConflicts,
    Refused,
    Stamp,
)
from penstock.runtime.ports.platform import ANY_ETAG
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs import flattening, merging, staging
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Branch,
    Catalogue,
    StoredSchema,
    branch_by_number,
    chain_at,
    commit_id_at,
)
from penstock.runtime.stores.sqlite.graphs.constraints import check_commit
from penstock.runtime.stores.sqlite.graphs.garbage import graph_tables
from penstock.runtime.stores.sqlite.graphs.loads import loading
from penstock.runtime.stores.sqlite.graphs.loads.hops import SortedEnds, write_ends
from penstock.runtime.stores.sqlite.graphs.loads.pacing import Pace
from penstock.runtime.stores.sqlite.graphs.loads.preparing import Prepared, Preparing
from penstock.runtime.stores.sqlite.graphs.merging import MergePlan
from penstock.runtime.stores.sqlite.graphs.mutating import Writable, find_writable
from penstock.runtime.stores.sqlite.graphs.reading import in_snapshot
from penstock.runtime.stores.sqlite.graphs.staging import Staged
from penstock.runtime.stores.sqlite.schema.edge_tables import ENDS
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables import resources

__all__ = ["StagedWork", "make_change"]

T = TypeVar("T")
# How often a merge begins anew because somebody else was faster.
_ATTEMPTS = 5


async def make_change(
    database: SqliteDatabase,
    apply: Callable[[sqlite3.Connection], T],
    call: GraphCall | None,
    made: Callable[[T], bool],
    *,
    is_long: bool = False,
) -> T:
    """Make a change together with the record of its call. `made` says whether an outcome means a change."""
    if call is None:
        return await database.write_raw(apply, is_long=is_long)
    complete = call.complete

    def completed(connection: sqlite3.Connection) -> T:
        outcome = apply(connection)
        if made(outcome):
            _change_resources(connection, call)
            if complete is not None:
                complete(outcome)
        return outcome

    return await database.write_raw(completed, call=call.record, happened=made, is_long=is_long)


def _change_resources(connection: sqlite3.Connection, call: GraphCall) -> None:
    """Store or remove the resource that changes with a graph."""
    if call.puts is not None:
        resources.write_resource(SqliteTransaction(connection), call.puts, ANY_ETAG)
    if call.deletes is not None:
        resources.write_deletion(SqliteTransaction(connection), *call.deletes, ANY_ETAG)


class StagedWork:
    """What is written piece by piece."""

    def __init__(self, database: SqliteDatabase, catalogue: Catalogue) -> None:
        self._database = database
        self._catalogue = catalogue
        self._pace = Pace(database)
        self._at_work: Counter[str] = Counter()

    @contextmanager
    def _working(self, load_id: str) -> Iterator[None]:
        """Note that somebody in this process works on a commit, so that its lease is renewed."""
        self._at_work[load_id] += 1
        try:
            yield
        finally:
            self._at_work[load_id] -= 1
            if not self._at_work[load_id]:
                del self._at_work[load_id]

    async def keep(self, at: int) -> None:
        """Renew the leases of the commits that this process is writing."""
        if not self._at_work:
            return
        listed = json.dumps(list(self._at_work))
        await self._database.write_raw(lambda connection: staging.renew(connection, listed, at))

    async def _staged(self, load_id: str) -> Staged | None:
        found = await self._database.read_quickly(lambda connection: staging.find_staged(connection, load_id))
        return None if found is None or found.ended else found

    async def _schema(self, graph: int) -> StoredSchema:
        def query(connection: sqlite3.Connection) -> StoredSchema:
            statement = "SELECT schema_version FROM graphs WHERE graph = ?"
            (version,) = connection.execute(statement, (graph,)).fetchone()
            return self._catalogue.schema(connection, graph, version)

        return await self._database.read_quickly(query)

    # --- loads -----------------------------------------------------------------------------------

    async def add(
        self, load_id: str, records: Sequence[GraphRecord], stamp: Stamp
    ) -> LoadProgress | LoadRefused | LoadNotFound:
        """Check and write records."""
        with self._working(load_id):
            return await self._add(load_id, records, stamp)

    async def _add(
        self, load_id: str, records: Sequence[GraphRecord], stamp: Stamp
    ) -> LoadProgress | LoadRefused | LoadNotFound:
        if len(records) > limits.GRAPH_LOAD_PIECE_MAX:
            message = f"{len(records)} records are too many at once; the limit is {limits.GRAPH_LOAD_PIECE_MAX}"
            raise LimitExceeded("GRAPH_LOAD_PIECE_MAX", message, "send them in smaller chunks")
        staged = await self._staged(load_id)
        if staged is None or staged.purpose != "load":
            return LoadNotFound(load_id)
        stored = await self._schema(staged.graph)
        rows, violations = await self._prepare(stored, records, staged.records + 1, stamp)
        for type_name, prepared in rows.items() if not violations else ():
            refused = await self._write(load_id, stored, type_name, prepared, stamp.at)
            if refused is None:
                return LoadNotFound(load_id)
            violations += refused
            if violations:
                break
        if violations:
            await self.abandon(load_id)
            return LoadRefused(tuple(violations[: limits.GRAPH_VIOLATIONS_MAX]))
        return LoadProgress(load_id, staged.records + len(records))

    async def _prepare(
        self, stored: StoredSchema, records: Sequence[GraphRecord], first_number: int, stamp: Stamp
    ) -> tuple[dict[str, list[Prepared]], list[Violation]]:
        """Check records, some at a time: a thread that computes for long holds up the event loop."""
        preparing = Preparing(stored)
        rows: dict[str, list[Prepared]] = {}
        violations: list[Violation] = []
        size = limits.GRAPH_RECORDS_PREPARED_AT_ONCE
        for start in range(0, len(records), size):
            part = records[start : start + size]
            made, wrong = await asyncio.to_thread(preparing.rows, part, first_number + start, stamp)
            violations += wrong
            for name, prepared in made.items():
                rows.setdefault(name, []).extend(prepared)
            if len(violations) >= limits.GRAPH_VIOLATIONS_MAX:
                break
        for prepared in rows.values():
            # Rows whose identifiers are close change the same pages of their index.
            prepared.sort(key=lambda each: each.row[0])
        return rows, violations

    async def _write(
        self, load_id: str, stored: StoredSchema, type_name: str, prepared: list[Prepared], at: int
    ) -> list[Violation] | None:
        """Write rows of one type; None if the load is no longer there."""

        def write(connection: sqlite3.Connection, piece: Sequence[Prepared]) -> list[Violation] | None:
            current = staging.find_staged(connection, load_id)
            if current is None or current.ended:
                return None
            return loading.write_piece(connection, stored, current, type_name, piece, at)

        start, kind = 0, f"rows of {stored.layout.tables[type_name].name}"
        while start < len(prepared):
            piece = prepared[start : start + self._pace.size(kind)]
            refused = await self._pace.piece(kind, len(piece), partial(write, piece=piece))
            if refused is None or refused:
                return refused
            start += len(piece)
        return []

    async def _enter_ends(self, stored: StoredSchema, staged: Staged) -> set[tuple[str, str]]:
        """Make the edges of a load known to their ends; return the types and ends of which every node exists."""
        found = set()
        for name in staged.counts:
            edge = stored.schema.edge_types.get(name)
            if edge is None:
                continue
            table = stored.layout.tables[name]
            nodes = {"src": stored.layout.tables[edge.source], "dst": stored.layout.tables[edge.target]}
            async with AsyncExitStack() as opened:
                # The edges are sorted by one end while those that are sorted by the other are written.
                sorting = [
                    await opened.enter_async_context(self._sorted_ends(staged, table, near, nodes[near]))
                    for near, _, _ in ENDS
                ]
                for work in sorting:
                    ends, exist = await work
                    await self._enter(staged, ends)
                    if exist:
                        found.add((name, ends.near))
        return found

    @asynccontextmanager
    async def _sorted_ends(
        self, staged: Staged, table: Table, near: str, nodes: Table
    ) -> AsyncIterator[asyncio.Future[tuple[SortedEnds, bool]]]:
        """Sort edges by an end in a thread, and see whether all nodes exist."""
        ends = await asyncio.to_thread(SortedEnds, self._database.path, staged, table, near)

        def work() -> tuple[SortedEnds, bool]:
            ends.sort()
            return ends, ends.all_exist(nodes)

        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            yield working
        finally:
            ends.interrupt()  # if nobody waits for it any more
            await asyncio.wait([working])
            if not working.cancelled():
                working.exception()
            await asyncio.to_thread(ends.close)

    async def _enter(self, staged: Staged, ends: SortedEnds) -> None:
        kind = f"ends in {ends.table.name}"
        entries = await asyncio.to_thread(ends.next, self._pace.size(kind))
        while entries:
            write = partial(write_ends, staged=staged, table=ends.table, near=ends.near, entries=entries)
            _, entries = await asyncio.gather(
                self._pace.piece(kind, len(entries), write), asyncio.to_thread(ends.next, self._pace.size(kind))
            )

    async def publish(
        self, load_id: str, stamp: Stamp, call: GraphCall | None
    ) -> LoadPublished | LoadRefused | LoadNotFound | HeadMoved:
        """Check a load as a whole and make it visible."""
        with self._working(load_id):
            return await self._publish(load_id, stamp, call)

    async def _publish(
        self, load_id: str, stamp: Stamp, call: GraphCall | None
    ) -> LoadPublished | LoadRefused | LoadNotFound | HeadMoved:
        staged = await self._staged(load_id)
        if staged is None or staged.purpose != "load":
            return LoadNotFound(load_id)
        stored = await self._schema(staged.graph)
        if staged.mode == LoadMode.OVERWRITE:
            for type_name in staged.counts:
                await self._remove_others(stored, staged, type_name)
        checked = await self._enter_ends(stored, staged)
        violations = await self._check(stored, staged, staged.counts, checked)
        if violations:
            await self.abandon(load_id)
            return LoadRefused(violations)
        if not staged.records:
            branch = await self._database.read_quickly(lambda connection: branch_by_number(connection, staged.branch))
            await self.abandon(load_id)
            return staging.load_published(stored, staged, branch, None)

        def finish(connection: sqlite3.Connection) -> LoadPublished | LoadNotFound | HeadMoved:
            current = staging.find_staged(connection, load_id)
            if current is None or current.ended or current.records != staged.records:
                return LoadNotFound(load_id)
            branch = branch_by_number(connection, current.branch)
            actual = commit_id_at(connection, branch.graph, branch.head_seq)
            if stamp.if_graph_commit is not None and stamp.if_graph_commit != actual:
                return HeadMoved(stamp.if_graph_commit, actual)
            commit = staging.publish(connection, current, "load", stamp)
            return staging.load_published(stored, current, branch, commit)

        return await make_change(self._database, finish, call, lambda outcome: isinstance(outcome, LoadPublished))

    async def _remove_others(self, stored: StoredSchema, staged: Staged, type_name: str) -> None:
        """Delete everything of a type that a load did not write."""
        after_id = ""
        find = partial(loading.overwritten_ids, stored=stored, staged=staged, type_name=type_name)
        remove = partial(loading.remove_piece, stored=stored, staged=staged, type_name=type_name)
        while True:
            after = (after_id, self._pace.size("removed"))
            ids = await self._database.read_slowly(partial(find, after=after))
            if not ids:
                return
            await self._pace.piece("removed", len(ids), partial(remove, ids=ids))
            after_id = ids[-1]

    async def _check(
        self,
        stored: StoredSchema,
        staged: Staged,
        touched: Iterable[str],
        checked: Collection[tuple[str, str]] = frozenset(),
    ) -> tuple[Violation, ...]:
        names = set(touched)
        return await self._database.read_slowly(
            lambda connection: check_commit(connection, stored, staged.chain(connection), names, checked)
        )

    async def abandon(self, load_id: str) -> bool:
        """Undo what was written."""
        found = await self._database.read_quickly(lambda connection: staging.find_staged(connection, load_id))
        if found is None:
            return False
        tables = await self._database.read_raw(lambda connection: graph_tables(connection, found.graph))
        undone = 1
        while undone:
            limit = self._pace.size("undone")
            undo = partial(staging.undo_piece, staged=found, tables=tables, limit=limit)
            undone = await self._pace.piece("undone", limit, undo)
        return True

    # --- merges ----------------------------------------------------------------------------------

    async def merge_branches(
        self, ref: GraphRef, names: tuple[str, str], stamp: Stamp, call: GraphCall | None
    ) -> BranchesMerged | MergeConflicts | Refused:
        """Merge the first branch into the second; it starts again if another call was faster."""
        for _ in range(_ATTEMPTS):
            plan = await self._database.read_slowly(
                in_snapshot(
                    lambda connection: merging.plan_merge(
                        connection, self._catalogue, ref, names, (stamp.if_graph_commit, stamp.if_source_commit)
                    )
                )
            )
            if not isinstance(plan, MergePlan):
                return plan
            if plan.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
                return BranchesMerged(plan.outcome, None, 0)
            if len(plan.writes) > limits.GRAPH_MERGE_ROWS_AT_ONCE:
                done = await self._merge_in_pieces(plan, stamp, call)
            else:
                done = await make_change(
                    self._database,
                    partial(merging.merge_now, plan=plan, stamp=stamp),
                    call,
                    lambda outcome: isinstance(outcome, BranchesMerged),
                    is_long=True,
                )
            if done is not None:
                return done
        return BranchBusy(names[1], "")

    async def _merge_in_pieces(
        self, plan: MergePlan, stamp: Stamp, call: GraphCall | None
    ) -> BranchesMerged | MergeConflicts | None:
        """Write a large merge; None if a head moved before it began."""
        load_id = stamp.new_id()

        def begin(connection: sqlite3.Connection) -> Staged | None:
            if not merging.is_current(connection, plan):
                return None
            staging.begin(connection, plan.target, load_id, stamp, purpose="merge")
            return staging.find_staged(connection, load_id)

        staged = await self._database.write_raw(begin)
        if staged is None:
            return None
        async with self._worked_on(load_id):
            return await self._merge(staged, plan, stamp, call)

    async def _merge(
        self, staged: Staged, plan: MergePlan, stamp: Stamp, call: GraphCall | None
    ) -> BranchesMerged | MergeConflicts:
        size = limits.GRAPH_MERGE_ROWS_AT_ONCE
        # Deletions first: an entity may be deleted under one identifier and come back under another one.
        writes = sorted(plan.writes, key=lambda each: each.row is not None)
        for start in range(0, len(writes), size):
            part = writes[start : start + size]
            await self._pace.piece("merged", len(part), partial(_apply_piece, plan=plan, staged=staged, writes=part))
        violations = await self._check(plan.stored, staged, {each.type_name for each in writes})
        if violations:
            await self.abandon(staged.load_id)
            return merging.as_conflicts(violations)

        def finish(connection: sqlite3.Connection) -> BranchesMerged:
            commit = staging.publish(connection, staged, "merge", stamp, merged_seq=plan.source.head_seq)
            return BranchesMerged(plan.outcome, commit, len(writes))

        return await make_change(self._database, finish, call, lambda outcome: True)

    @asynccontextmanager
    async def _worked_on(self, load_id: str) -> AsyncIterator[None]:
        """Work on a commit; undo it if it cannot be finished, so that the branch can be written again."""
        try:
            with self._working(load_id):
                yield
        except BaseException:
            await self.abandon(load_id)
            raise

    # --- flattening ------------------------------------------------------------------------------

    async def flatten_branch(
        self, ref: GraphRef, name: str, stamp: Stamp, call: GraphCall | None
    ) -> Flattened | BranchBusy | Lost:
        """Flatten a branch by name."""

        def find(connection: sqlite3.Connection) -> tuple[Writable, int] | Refused:
            found = find_writable(connection, ref, name, None)
            if not isinstance(found, Writable):
                return found
            return found, len(chain_at(connection, found.branch.branch, found.branch.head_seq))

        for _ in range(_ATTEMPTS):
            found = await self._database.read_raw(find)
            if not isinstance(found, tuple):
                assert not isinstance(found, HeadMoved)
                return found
            writable, depth = found
            if depth == 1:
                return Flattened(None, 0)
            stored = await self._schema(writable.graph.graph)
            done = await self._flatten_in_pieces(stored, writable.branch, stamp, call)
            if done is not None:
                return done
        return BranchBusy(name, "")

    async def _flatten_in_pieces(
        self, stored: StoredSchema, branch: Branch, stamp: Stamp, call: GraphCall | None
    ) -> Flattened | None:
        """Copy what a branch inherits; None if its head moved before it began."""
        load_id = stamp.new_id()

        def begin(connection: sqlite3.Connection) -> Staged | None:
            if branch_by_number(connection, branch.branch) != branch:
                return None
            staging.begin(connection, branch, load_id, stamp, purpose="flatten")
            return staging.find_staged(connection, load_id)

        staged = await self._database.write_raw(begin)
        if staged is None:
            return None
        async with self._worked_on(load_id):
            return await self._flatten(staged, stored, stamp, call)

    async def _flatten(self, staged: Staged, stored: StoredSchema, stamp: Stamp, call: GraphCall | None) -> Flattened:
        rows = 0
        for table in stored.layout.tables.values():
            copied, after_id = 1, ""
            while copied:
                size = self._pace.size("copied")
                copy = partial(flattening.copy_piece, staged=staged, table=table, after_id=after_id, limit=size)
                copied, after_id = await self._pace.piece("copied", size, copy)
                rows += copied
            ended = 1
            while ended:
                size = self._pace.size("ended")
                end = partial(flattening.end_dead, staged=staged, table=table, limit=size)
                ended = await self._pace.piece("ended", size, end)

        def finish(connection: sqlite3.Connection) -> Flattened:
            flattening.cut_lineage(connection, staged)
            return Flattened(staging.publish(connection, staged, "flatten", stamp), rows)

        return await make_change(self._database, finish, call, lambda outcome: True)


def _apply_piece(
    connection: sqlite3.Connection, plan: MergePlan, staged: Staged, writes: Sequence[merging.MergeWrite]
) -> None:
    staging.require(connection, staged)
    merging.apply_merge(connection, plan.stored, staged.chain(connection), writes)

"""The graph store in SQLite, in the same file as runs and the platform's tables.

Its writes go through the file's only writer, so that a commit and the record of its call are in one transaction. Reads
of graphs may take long, and have threads of their own.

Above it: `app` and the conformance suite. Below it: `database`, and one module for each kind of work.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial

from penstock.base import limits
from penstock.graph.records import GraphRecord
from penstock.graph.schema.model import Schema
from penstock.graph.schema.plan import SchemaPlan, plan_schema
from penstock.graph.schema.steps import DropMode
from penstock.graph.sql.layout import new_layout
from penstock.graph.sql.statement import Statement, bind
from penstock.graph.typing.model import CheckedMutation, CheckedQuery, CheckedRead
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchBusy,
    BranchCreated,
    BranchDeleted,
    BranchesMerged,
    BranchExists,
    BranchInUse,
    BranchNameRefused,
    BranchNotFound,
    BranchRow,
    BranchTooDeep,
    ChangeGap,
    ChangePage,
    Collected,
    CommitNotFound,
    CommitPage,
    CommitRow,
    ConstraintsViolated,
    DiffPage,
    Explanation,
    ExportPage,
    Flattened,
    GarbagePolicy,
    GraphCall,
    GraphCreated,
    GraphDeleted,
    GraphExists,
    GraphNotFound,
    GraphPage,
    GraphRef,
    GraphRow,
    HeadMoved,
    LoadBegun,
    LoadNotFound,
    LoadProgress,
    LoadPublished,
    LoadRefused,
    Lost,
    MergeConflicts,
    MergeTried,
    Mutated,
    PageWanted,
    Parameters,
    QueryNotSupported,
    ReadLimits,
    ReadRows,
    ReadStopped,
    Refused,
    SchemaApplied,
    SchemaRefused,
    Stamp,
    View,
)
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.graphs import branching, garbage, listing, merging, mutating, schemas, staging
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Catalogue,
    Head,
    StoredSchema,
    branch_row,
    commit_by_id,
    find_graph,
    find_head,
    live_branches,
)
from penstock.runtime.stores.sqlite.graphs.exporting import read_export
from penstock.runtime.stores.sqlite.graphs.reading import ShortReads, explain_read, in_snapshot, is_gone, run_read
from penstock.runtime.stores.sqlite.graphs.searching.corpora import Corpora
from penstock.runtime.stores.sqlite.graphs.searching.indexes import build_piece, usable_text_indexes
from penstock.runtime.stores.sqlite.graphs.staged_work import StagedWork, make_change
from penstock.runtime.stores.sqlite.graphs.statements import Statements

__all__ = ["SqliteGraphStore"]

_LIMITS = ReadLimits()
_WHOLE = PageWanted()
# How often a schema change begins anew because somebody else was faster.
_ATTEMPTS = 5


class SqliteGraphStore:
    """The graph store in a database that a run store opens and closes."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._catalogue = Catalogue()
        self._statements = Statements()
        self._corpora = Corpora()
        self._short_reads = ShortReads(database)
        self._staged = StagedWork(database, self._catalogue)

    # --- graphs ----------------------------------------------------------------------------------

    async def create_graph(
        self, ref: GraphRef, *, schema: Schema, source: str, stamp: Stamp, call: GraphCall | None = None
    ) -> GraphCreated | GraphExists:
        """Make an empty graph."""
        return await make_change(
            self._database,
            lambda connection: branching.create_graph(connection, ref, schema, source, stamp),
            call,
            _is(GraphCreated),
            is_long=True,
        )

    async def graph(self, ref: GraphRef) -> GraphRow | None:
        """A graph by name."""

        def query(connection: sqlite3.Connection) -> GraphRow | None:
            found = find_graph(connection, ref)
            return None if found is None else self._catalogue.graph_row(connection, ref, found)

        return await self._database.read_quickly(query)

    async def graphs(self, tenant: str, *, limit: int, cursor: str | None = None) -> GraphPage:
        """Graphs of a tenant, by name."""
        return await self._database.read_raw(
            lambda connection: listing.read_graphs(connection, self._catalogue, tenant, limit, cursor)
        )

    async def delete_graph(self, ref: GraphRef, *, call: GraphCall | None = None) -> GraphDeleted | GraphNotFound:
        """Delete a graph."""
        return await make_change(
            self._database, lambda connection: branching.delete_graph(connection, ref), call, _is(GraphDeleted)
        )

    # --- branches and commits --------------------------------------------------------------------

    async def create_branch(
        self,
        ref: GraphRef,
        name: str,
        *,
        source: str = MAIN,
        snapshot: str | None = None,
        stamp: Stamp,
        call: GraphCall | None = None,
    ) -> BranchCreated | BranchExists | BranchNameRefused | BranchTooDeep | CommitNotFound | Lost:
        """Fork a branch."""
        return await make_change(
            self._database,
            lambda connection: branching.create_branch(connection, ref, name, (source, snapshot), stamp),
            call,
            _is(BranchCreated),
        )

    async def branches(self, ref: GraphRef) -> tuple[BranchRow, ...] | GraphNotFound:
        """The branches of a graph, by name."""

        def query(connection: sqlite3.Connection) -> tuple[BranchRow, ...] | GraphNotFound:
            graph = find_graph(connection, ref)
            if graph is None:
                return GraphNotFound()
            return tuple(branch_row(connection, each) for each in live_branches(connection, graph.graph))

        return await self._database.read_raw(query)

    async def delete_branch(
        self, ref: GraphRef, name: str, *, stamp: Stamp, call: GraphCall | None = None
    ) -> BranchDeleted | BranchInUse | BranchBusy | Lost:
        """Delete a branch."""
        return await make_change(
            self._database,
            lambda connection: branching.delete_branch(connection, ref, name, stamp),
            call,
            _is(BranchDeleted),
        )

    async def commits(
        self, ref: GraphRef, *, branch: str | None = None, limit: int, cursor: str | None = None
    ) -> CommitPage | Lost:
        """Commits, newest first."""
        return await self._database.read_raw(
            lambda connection: listing.read_commit_page(connection, ref, branch, limit, cursor)
        )

    async def commit(self, ref: GraphRef, commit_id: str) -> CommitRow | CommitNotFound | GraphNotFound:
        """A commit by id."""

        def query(connection: sqlite3.Connection) -> CommitRow | CommitNotFound | GraphNotFound:
            graph = find_graph(connection, ref)
            if graph is None:
                return GraphNotFound()
            found = commit_by_id(connection, graph.graph, commit_id)
            return CommitNotFound(commit_id) if found is None else found[0]

        return await self._database.read_quickly(query)

    # --- reading ---------------------------------------------------------------------------------

    async def resolve(
        self, ref: GraphRef, *, branch: str | None = None, snapshot: str | None = None
    ) -> View | CommitNotFound | Lost:
        """Bind a view."""

        def query(connection: sqlite3.Connection) -> View | CommitNotFound | Lost:
            if snapshot is None:
                head = find_head(connection, ref, MAIN if branch is None else branch)
                return self._catalogue.view(connection, ref, head) if isinstance(head, Head) else head
            graph = find_graph(connection, ref)
            if graph is None:
                return GraphNotFound()
            view = self._catalogue.snapshot(connection, ref, graph, snapshot)
            if view is None:
                return CommitNotFound(snapshot)
            return CommitNotFound(snapshot, collected=True) if is_gone(connection, view) else view

        return await self._database.read_quickly(query)

    def unsupported(self, query: CheckedQuery, schema: Schema) -> QueryNotSupported | None:
        """Why a query cannot be run."""
        if isinstance(query.body, CheckedRead):
            compiled = self._statements.read(query.body, new_layout("check", schema), 0, 1)
            return compiled if isinstance(compiled, QueryNotSupported) else None
        return None

    def _compiled(
        self, connection: sqlite3.Connection, view: View, query: CheckedQuery
    ) -> tuple[Statement, StoredSchema] | QueryNotSupported | CommitNotFound:
        if is_gone(connection, view):
            return CommitNotFound(view.commit_id, collected=True)
        assert isinstance(query.body, CheckedRead), "a mutation cannot be read"
        stored = self._catalogue.schema(connection, view.graph, view.schema_version)
        about = (query.body, stored.layout, stored.version, len(view.chain))
        compiled = self._statements.read(*about)
        if isinstance(compiled, Statement) and compiled.searched:
            compiled = self._statements.read(*about, usable_text_indexes(connection, compiled.searched))
        return compiled if isinstance(compiled, QueryNotSupported) else (compiled, stored)

    async def read(
        self,
        view: View,
        query: CheckedQuery,
        parameters: Parameters,
        *,
        at: int,
        limits: ReadLimits = _LIMITS,
        page: PageWanted = _WHOLE,
    ) -> ReadRows | ReadStopped | CommitNotFound | QueryNotSupported:
        """Run a read."""

        def run(
            connection: sqlite3.Connection, limits: ReadLimits
        ) -> ReadRows | ReadStopped | CommitNotFound | QueryNotSupported:
            compiled = self._compiled(connection, view, query)
            if not isinstance(compiled, tuple):
                return compiled
            statement = compiled[0]
            values = bind(statement, parameters, at)
            return run_read(connection, view, statement, values, self._corpora, (limits, page))

        return await self._short_reads.read(query, limits, run)

    async def explain(
        self, view: View, query: CheckedQuery, parameters: Parameters, *, at: int, run: bool = False
    ) -> Explanation | ReadStopped | CommitNotFound | QueryNotSupported:
        """Explain a read."""

        def explain(
            connection: sqlite3.Connection,
        ) -> Explanation | ReadStopped | CommitNotFound | QueryNotSupported:
            compiled = self._compiled(connection, view, query)
            if not isinstance(compiled, tuple):
                return compiled
            statement, stored = compiled
            values = bind(statement, parameters, at)
            entities = {table.name: name for name, table in stored.layout.tables.items()}
            return explain_read(
                connection,
                view,
                statement,
                values,
                entities,
                run=(lambda: run_read(connection, view, statement, values, self._corpora, (_LIMITS, _WHOLE)))
                if run
                else None,
            )

        return await self._database.read_slowly(in_snapshot(explain))

    async def diff(
        self, before: View, after: View, *, limit: int, cursor: str | None = None
    ) -> DiffPage | CommitNotFound:
        """Entities that differ between two views."""
        return await self._database.read_slowly(
            lambda connection: listing.read_diff(connection, self._catalogue, (before, after), limit, cursor)
        )

    async def changes(
        self, ref: GraphRef, *, branch: str = MAIN, after: str | None = None, limit: int
    ) -> ChangePage | ChangeGap | CommitNotFound | Lost:
        """What commits of a branch changed."""
        return await self._database.read_slowly(
            lambda connection: listing.read_changes(connection, self._catalogue, (ref, branch, after), limit)
        )

    async def export(self, view: View, *, limit: int, cursor: str | None = None) -> ExportPage | CommitNotFound:
        """A page of every node, then every edge."""
        return await self._database.read_slowly(
            lambda connection: read_export(connection, self._catalogue, view, limit, cursor)
        )

    # --- writing ---------------------------------------------------------------------------------

    async def mutate(
        self,
        ref: GraphRef,
        query: CheckedQuery,
        parameters: Parameters,
        *,
        branch: str = MAIN,
        stamp: Stamp,
        call: GraphCall | None = None,
    ) -> Mutated | ConstraintsViolated | ReadStopped | QueryNotSupported | Refused:
        """Run a mutation as one commit."""
        body = query.body
        assert isinstance(body, CheckedMutation), "a read changes nothing"
        return await make_change(
            self._database,
            lambda connection: mutating.mutate(
                connection, self._catalogue, self._statements, (ref, branch, stamp), (body, parameters)
            ),
            call,
            lambda outcome: isinstance(outcome, Mutated) and outcome.commit is not None,
            is_long=mutating.is_long_mutation(body),
        )

    async def begin_load(
        self, ref: GraphRef, *, branch: str, mode: LoadMode, source: str | None = None, load_id: str, stamp: Stamp
    ) -> LoadBegun | BranchNameRefused | BranchTooDeep | BranchBusy | Lost:
        """Begin a load."""

        def begin(connection: sqlite3.Connection) -> LoadBegun | BranchNameRefused | BranchTooDeep | BranchBusy | Lost:
            created = False
            if source is not None:
                made = branching.create_branch(connection, ref, branch, (source, None), stamp)
                if isinstance(made, BranchNameRefused | BranchTooDeep | GraphNotFound | BranchNotFound):
                    return made
                created = isinstance(made, BranchCreated)
            found = mutating.find_writable(connection, ref, branch, None)
            if isinstance(found, mutating.Writable):
                about = {"mode": mode.value, "base_branch": source, "branch_created": created}
                staging.begin(connection, found.branch, load_id, stamp, **about)
                return LoadBegun(load_id, created)
            assert not isinstance(found, HeadMoved)
            return found

        return await self._database.write_raw(begin)

    async def add_to_load(
        self, load_id: str, records: Sequence[GraphRecord], *, stamp: Stamp
    ) -> LoadProgress | LoadRefused | LoadNotFound:
        """Add records to a load."""
        return await self._staged.add(load_id, records, stamp)

    async def publish_load(
        self, load_id: str, *, stamp: Stamp, call: GraphCall | None = None
    ) -> LoadPublished | LoadRefused | LoadNotFound | HeadMoved:
        """Make a load visible."""
        return await self._staged.publish(load_id, stamp, call)

    async def abandon_load(self, load_id: str) -> bool:
        """Forget a load."""
        return await self._staged.abandon(load_id)

    async def keep_loads(self, *, at: int) -> None:
        """Renew the leases of what this process is writing."""
        await self._staged.keep(at)

    async def abandon_loads(self, *, before: int) -> int:
        """Forget loads that nobody continues."""
        statement = "SELECT load_id FROM graph_loads WHERE touched_at < ? OR ended = 1"
        listed = await self._database.read_raw(lambda connection: connection.execute(statement, (before,)).fetchall())
        for (load_id,) in listed:
            await self._staged.abandon(load_id)
        return len(listed)

    async def merge(
        self,
        ref: GraphRef,
        source: str,
        target: str = MAIN,
        *,
        stamp: Stamp,
        call: GraphCall | None = None,
    ) -> BranchesMerged | MergeConflicts | Refused:
        """Merge a branch into another one."""
        return await self._staged.merge_branches(ref, (source, target), stamp, call)

    async def try_merge(self, ref: GraphRef, source: str, target: str = MAIN) -> MergeTried | MergeConflicts | Refused:
        """What a merge would do."""
        return await self._database.read_slowly(in_snapshot(merging.trying(self._catalogue, ref, (source, target))))

    async def plan_schema(
        self, ref: GraphRef, schema: Schema, *, allow_data_loss: bool = False
    ) -> SchemaPlan | GraphNotFound:
        """The steps to another schema."""
        row = await self.graph(ref)
        if row is None:
            return GraphNotFound()
        return plan_schema(row.schema, schema, drop_mode=DropMode.HARD if allow_data_loss else DropMode.SOFT)

    async def apply_schema(
        self,
        ref: GraphRef,
        schema: Schema,
        *,
        source: str,
        allow_data_loss: bool = False,
        stamp: Stamp,
        call: GraphCall | None = None,
    ) -> SchemaApplied | SchemaRefused | BranchBusy | HeadMoved | GraphNotFound:
        """Give a graph another schema."""
        for _ in range(_ATTEMPTS):
            change = await self._database.read_slowly(
                in_snapshot(
                    lambda connection: schemas.plan_change(
                        connection, self._catalogue, ref, schema, allow_data_loss=allow_data_loss
                    )
                )
            )
            if not isinstance(change, schemas.SchemaChange):
                return change
            applied = await make_change(
                self._database,
                partial(
                    schemas.apply_change,
                    catalogue=self._catalogue,
                    ref=ref,
                    change=change,
                    given=(schema, source, stamp),
                ),
                call,
                lambda outcome: isinstance(outcome, SchemaApplied) and outcome.commit is not None,
                is_long=True,
            )
            if applied is not None:
                while await self._database.write_raw(_build_text_index, is_long=True):
                    pass  # other writers have their turn between two pieces
                return applied
        return BranchBusy(MAIN, "")

    async def flatten(
        self, ref: GraphRef, branch: str, *, stamp: Stamp, call: GraphCall | None = None
    ) -> Flattened | BranchBusy | Lost:
        """Copy what a branch inherits into it."""
        return await self._staged.flatten_branch(ref, branch, stamp, call)

    async def collect(
        self, ref: GraphRef, policy: GarbagePolicy, *, call: GraphCall | None = None
    ) -> Collected | GraphNotFound:
        """Remove versions that nothing can show."""
        return await make_change(
            self._database,
            lambda connection: garbage.collect(connection, ref, policy),
            call,
            lambda outcome: isinstance(outcome, Collected) and not outcome.more,
            is_long=True,
        )

    async def sweep(self, *, limit: int) -> Collected:
        """Remove rows of deleted graphs, and values that were dropped for good."""
        aside = self._database.set_aside
        return await self._database.write_raw(lambda connection: garbage.sweep(connection, aside, limit), is_long=True)


def _build_text_index(connection: sqlite3.Connection) -> int:
    return build_piece(connection, limits.GRAPH_TEXTS_INDEXED_AT_ONCE)


def _is(kind: type) -> Callable[[object], bool]:
    return lambda outcome: isinstance(outcome, kind)

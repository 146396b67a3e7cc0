"""The graph store port: versioned property graphs with branches, commits, snapshots, merges and loads.

Every graph belongs to a tenant, and is named in it. Every write is one commit on a branch. A commit and the record of
the call that makes it (audit entry, approval, idempotency key, answer) are stored in one transaction. Writes return a
closed outcome: the success, or the reason why nothing was changed. Identifiers and the time come from the caller, in a
`Stamp`. Values have the forms of `penstock.graph.values`.

A read is bound to a `View`, which `resolve` makes of a branch or of a commit. What a view shows never changes; only
garbage collection can end it, and then reads of it return `CommitNotFound`.

Above it: `operations`, `app`. Below it: adapters in `runtime.stores`; one conformance suite defines what they must do.
It decides nothing: who may do what is decided above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from penstock.base import limits
from penstock.graph.records import GraphRecord
from penstock.graph.schema.model import Schema
from penstock.graph.schema.plan import SchemaPlan
from penstock.graph.typing.model import CheckedQuery
from penstock.graph.versions.entities import LoadMode
from penstock.runtime.ports.graph_outcomes import (
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
    CommitKind,
    CommitNotFound,
    CommitPage,
    CommitRow,
    ConstraintsViolated,
    DiffPage,
    Explanation,
    ExportPage,
    Flattened,
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
    PlanStep,
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

__all__ = [
    "MAIN",
    "BranchBusy",
    "BranchCreated",
    "BranchDeleted",
    "BranchExists",
    "BranchInUse",
    "BranchNameRefused",
    "BranchNotFound",
    "BranchRow",
    "BranchTooDeep",
    "BranchesMerged",
    "ChangeGap",
    "ChangePage",
    "Collected",
    "CommitKind",
    "CommitNotFound",
    "CommitPage",
    "CommitRow",
    "ConstraintsViolated",
    "DiffPage",
    "Explanation",
    "ExportPage",
    "Flattened",
    "GarbagePolicy",
    "GraphCall",
    "GraphCreated",
    "GraphDeleted",
    "GraphExists",
    "GraphNotFound",
    "GraphPage",
    "GraphRef",
    "GraphRow",
    "GraphStore",
    "HeadMoved",
    "LoadBegun",
    "LoadNotFound",
    "LoadProgress",
    "LoadPublished",
    "LoadRefused",
    "Lost",
    "MergeConflicts",
    "MergeTried",
    "Mutated",
    "PageWanted",
    "Parameters",
    "PlanStep",
    "QueryNotSupported",
    "ReadLimits",
    "ReadRows",
    "ReadStopped",
    "Refused",
    "SchemaApplied",
    "SchemaRefused",
    "Stamp",
    "View",
]


_LIMITS = ReadLimits()
_WHOLE = PageWanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbagePolicy:
    """What garbage collection keeps beside the heads of branches and their fork points."""

    keep_since: int
    """Snapshots of commits made at or after this time can still be read (epoch milliseconds)."""
    held_commits: tuple[str, ...] = ()
    """Snapshots of these commits, and everything after them on their branches, can still be read."""
    limit: int = limits.GRAPH_SWEEP_ROWS_MAX
    """How many row versions are removed at once; `Collected.more` says that some are left."""


class Collected(msgspec.Struct, frozen=True):
    """How many row versions were removed, and whether there are more."""

    rows: int
    more: bool


class GraphStore(Protocol):
    """Keeps graphs. When a method returns, its effect is stored; when it raises, nothing was."""

    # --- graphs ----------------------------------------------------------------------------------

    async def create_graph(
        self, ref: GraphRef, *, schema: Schema, source: str, stamp: Stamp, call: GraphCall | None = None
    ) -> GraphCreated | GraphExists:
        """Create an empty graph with a schema, and the text that the schema was read from."""

    async def graph(self, ref: GraphRef) -> GraphRow | None:
        """Return a graph by name."""

    async def graphs(self, tenant: str, *, limit: int, cursor: str | None = None) -> GraphPage:
        """Return graphs of a tenant, by name."""

    async def delete_graph(self, ref: GraphRef, *, call: GraphCall | None = None) -> GraphDeleted | GraphNotFound:
        """Delete a graph with all its branches."""

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
        """Fork a branch from the head of `source`, or from the commit `snapshot`. Makes no commit."""

    async def branches(self, ref: GraphRef) -> tuple[BranchRow, ...] | GraphNotFound:
        """Return the branches of a graph, by name."""

    async def delete_branch(
        self, ref: GraphRef, name: str, *, stamp: Stamp, call: GraphCall | None = None
    ) -> BranchDeleted | BranchInUse | BranchBusy | Lost:
        """Delete a branch that no other branch was forked from. `main` cannot be deleted."""

    async def commits(
        self, ref: GraphRef, *, branch: str | None = None, limit: int, cursor: str | None = None
    ) -> CommitPage | Lost:
        """Return commits, newest first: of a branch and of those that it was forked from, or of the whole graph."""

    async def commit(self, ref: GraphRef, commit_id: str) -> CommitRow | CommitNotFound | GraphNotFound:
        """Return a commit by id."""

    # --- reading ---------------------------------------------------------------------------------

    async def resolve(
        self, ref: GraphRef, *, branch: str | None = None, snapshot: str | None = None
    ) -> View | CommitNotFound | Lost:
        """Bind a view to the head of a branch (`main` if neither is given), or to a commit."""

    def unsupported(self, query: CheckedQuery, schema: Schema) -> QueryNotSupported | None:
        """Say why this store cannot run a query over a schema exactly as it is meant; None if it can."""

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
        """Run a read. Parameters are complete and have their types; `at` is the time that `now()` stands for."""

    async def explain(
        self, view: View, query: CheckedQuery, parameters: Parameters, *, at: int, run: bool = False
    ) -> Explanation | ReadStopped | CommitNotFound | QueryNotSupported:
        """Explain how a read is run; with `run`, run it and measure."""

    async def diff(
        self, before: View, after: View, *, limit: int, cursor: str | None = None
    ) -> DiffPage | CommitNotFound:
        """Return the entities that differ between two views of one graph."""

    async def changes(
        self, ref: GraphRef, *, branch: str = MAIN, after: str | None = None, limit: int
    ) -> ChangePage | ChangeGap | CommitNotFound | Lost:
        """Return what commits of a branch changed, from the one after the commit `after` (None: from the first).

        A cursor is the id of a commit. A page has whole commits: at least one, and no further ones once `limit`
        changes are reached.
        """

    async def export(self, view: View, *, limit: int, cursor: str | None = None) -> ExportPage | CommitNotFound:
        """Return every node, then every edge, by type and id, so many on a page. A page costs the same wherever it is.

        Request further pages with a view of the same commit.
        """

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
        """Run a mutation as one commit on a branch.

        A step may change `GRAPH_ROWS_MAX` entities at most, and look for them for `GRAPH_MUTATION_SECONDS`.
        """

    async def begin_load(
        self, ref: GraphRef, *, branch: str, mode: LoadMode, source: str | None = None, load_id: str, stamp: Stamp
    ) -> LoadBegun | BranchNameRefused | BranchTooDeep | BranchBusy | Lost:
        """Begin a load into a branch, which is forked from `source` if it does not exist and `source` is given.

        Reads do not see the records until they are published. Other writes to the branch are refused until then.
        """

    async def add_to_load(
        self, load_id: str, records: Sequence[GraphRecord], *, stamp: Stamp
    ) -> LoadProgress | LoadRefused | LoadNotFound:
        """Add records, at most `GRAPH_LOAD_PIECE_MAX` at once (`LimitExceeded`). Edges may come before their nodes."""

    async def publish_load(
        self, load_id: str, *, stamp: Stamp, call: GraphCall | None = None
    ) -> LoadPublished | LoadRefused | LoadNotFound | HeadMoved:
        """Check the load as a whole, and make it visible as one commit. If it is refused, it is abandoned."""

    async def abandon_load(self, load_id: str) -> bool:
        """Forget a load and its records; return whether there was one."""

    async def keep_loads(self, *, at: int) -> None:
        """Renew the leases of loads, large merges and flattening on which this process works at a time.

        A load between two calls has the lease that the last `add_to_load` gave it, with the time of its stamp.
        """

    async def abandon_loads(self, *, before: int) -> int:
        """Abandon loads, merges and flattening whose lease was last renewed before a time: their writers are gone.

        Their branches then take other writes again. Return how many.
        """

    async def merge(
        self,
        ref: GraphRef,
        source: str,
        target: str = MAIN,
        *,
        stamp: Stamp,
        call: GraphCall | None = None,
    ) -> BranchesMerged | MergeConflicts | Refused:
        """Bring everything that changed on `source` to `target`, as one commit, or report every conflict."""

    async def try_merge(self, ref: GraphRef, source: str, target: str = MAIN) -> MergeTried | MergeConflicts | Refused:
        """Return what a merge would do now. Whether its result keeps every constraint shows when it is merged."""

    async def plan_schema(
        self, ref: GraphRef, schema: Schema, *, allow_data_loss: bool = False
    ) -> SchemaPlan | GraphNotFound:
        """Return the steps from the current schema to another one. Whether the data allow them shows when applied."""

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
        """Give a graph another schema, as one commit on `main`. Every branch has it from then on.

        Drops are soft: older snapshots still show what was dropped. With `allow_data_loss` they are hard: it is
        deleted from all versions, and older snapshots end.
        """

    async def flatten(
        self, ref: GraphRef, branch: str, *, stamp: Stamp, call: GraphCall | None = None
    ) -> Flattened | BranchBusy | Lost:
        """Copy what a branch inherits into it, so that reads of its head look at one branch only."""

    async def collect(
        self, ref: GraphRef, policy: GarbagePolicy, *, call: GraphCall | None = None
    ) -> Collected | GraphNotFound:
        """Remove row versions that no branch, no fork point and nothing that the policy keeps can show.

        The call is recorded with the last piece: while there is more, it has to be made again.
        """

    async def sweep(self, *, limit: int) -> Collected:
        """Remove rows of deleted graphs and of abandoned loads, at most `limit`; of every tenant."""

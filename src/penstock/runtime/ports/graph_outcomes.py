"""The rows and outcomes of the graph store port, which is in `graphs`; import them from there.

Above it: `graphs`. Below it: the pure packages of `graph`. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.base import limits
from penstock.graph.records import GraphRecord
from penstock.graph.schema.model import Schema
from penstock.graph.schema.plan import SchemaPlan
from penstock.graph.values import GraphValue
from penstock.graph.versions.entities import (
    EntityChange,
    LoadMode,
    MergeConflict,
    MergeOutcome,
    Violation,
)
from penstock.runtime.ports.platform import CallRecord, ResourceRow

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
    "CommitKind",
    "CommitNotFound",
    "CommitPage",
    "CommitRow",
    "ConstraintsViolated",
    "DiffPage",
    "Explanation",
    "ExportPage",
    "Flattened",
    "GraphCall",
    "GraphCreated",
    "GraphDeleted",
    "GraphExists",
    "GraphNotFound",
    "GraphPage",
    "GraphRef",
    "GraphRow",
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

MAIN = "main"
"""The branch that every graph has."""


@dataclass(frozen=True, slots=True)
class GraphRef:
    """Which graph."""

    tenant: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a write needs from outside: the id of its commit, the time (epoch milliseconds), who makes it, and new ids.

    `new_id` may be called in another thread, and again if a transaction is repeated. Every id it returns is new. With
    `if_graph_commit`, the commit is made only if the head of its branch is that commit (`HeadMoved` otherwise).
    """

    commit_id: str
    at: int
    new_id: Callable[[], str]
    actor: str | None = None
    message: str | None = None
    if_graph_commit: str | None = None
    if_source_commit: str | None = None  # the same for the source of a merge


@dataclass(frozen=True, slots=True)
class GraphCall:
    """The record of the call that makes a change, stored with it.

    `complete` gets the successful outcome inside the transaction, before the record is stored: it gives the record its
    answer and says what the call turned out to be about. It may run in another thread, and again if the transaction is
    repeated; it must not raise. `puts` and `deletes` (tenant, kind, id) are resources that change with the graph.
    """

    record: CallRecord
    complete: Callable[[Any], None] | None = None
    puts: ResourceRow | None = None
    deletes: tuple[str, str, str] | None = None


CommitKind: TypeAlias = Literal["create", "mutation", "load", "merge", "schema", "flatten"]


class CommitRow(msgspec.Struct, frozen=True, kw_only=True):
    """A commit. `seq` grows with every commit of the graph, on any branch."""

    commit_id: str
    seq: int
    branch: str
    kind: CommitKind
    parent_id: str | None
    merged_parent_id: str | None
    actor: str | None
    message: str | None
    at: int


class CommitPage(msgspec.Struct, frozen=True):
    """Commits, newest first; `next_cursor` continues the page."""

    rows: tuple[CommitRow, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRow:
    """A graph with its current schema. `schema_version` counts the schemas that it has had, from 1."""

    ref: GraphRef
    schema: Schema
    schema_source: str
    schema_version: int
    created_at: int
    created_by: str | None


@dataclass(frozen=True, slots=True)
class GraphPage:
    """Graphs of a tenant, by name; `next_cursor` continues the page."""

    rows: tuple[GraphRow, ...]
    next_cursor: str | None


class BranchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A branch. `parent` is the branch that it was forked from, and `fork_commit_id` the commit; None for `main`."""

    name: str
    head_commit_id: str
    parent: str | None
    fork_commit_id: str | None
    depth: int
    """How many branches a read of it looks at, one for `main`. `flatten` makes it one."""
    created_at: int
    created_by: str | None
    updated_at: int
    loading: bool = False
    """Whether a load on it is in progress; until it ends, other writes to the branch are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A graph at one commit. Callers read `commit_id`, `branch` and `schema`; the rest is the store's."""

    ref: GraphRef
    commit_id: str
    branch: str | None
    """The branch, if the view is its head; None for a snapshot."""
    schema: Schema
    schema_version: int
    seq: int
    chain: tuple[tuple[int, int], ...]
    graph: int


# --- refusals ---------------------------------------------------------------------------------------


class GraphNotFound(msgspec.Struct, frozen=True):
    """The tenant has no graph of this name."""


class GraphExists(msgspec.Struct, frozen=True):
    """The tenant has a graph of this name."""


class BranchNotFound(msgspec.Struct, frozen=True):
    """The graph has no branch of this name."""

    name: str


class BranchExists(msgspec.Struct, frozen=True):
    """The graph has a branch of this name."""

    name: str


class BranchNameRefused(msgspec.Struct, frozen=True):
    """The name is not valid, or one of the names is a path prefix of the other (`clashes_with`)."""

    name: str
    clashes_with: str | None


class BranchTooDeep(msgspec.Struct, frozen=True):
    """The branch cannot be forked: reads of it look at `depth` branches already. Flatten it first."""

    name: str
    depth: int


class BranchInUse(msgspec.Struct, frozen=True):
    """The branch cannot be deleted: it is `main`, or these branches were forked from it."""

    name: str
    descendants: tuple[str, ...]


class BranchBusy(msgspec.Struct, frozen=True):
    """A load on the branch is in progress. Try again later, or write to another branch and merge it."""

    name: str
    load_id: str


class CommitNotFound(msgspec.Struct, frozen=True):
    """The graph has no such commit, or (`collected`) garbage collection or a hard drop has ended its snapshot."""

    commit_id: str
    collected: bool = False


class HeadMoved(msgspec.Struct, frozen=True):
    """The branch has another head than `Stamp.if_graph_commit` says."""

    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class ConstraintsViolated:
    """The change breaks constraints; at most `GRAPH_VIOLATIONS_MAX` are reported."""

    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class QueryNotSupported:
    """The store cannot run this query exactly as it is meant. Registries ask at load, with `unsupported`."""

    code: str
    message: str


# --- reading ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """What a single query may use at most."""

    rows: int = limits.GRAPH_ROWS_MAX
    seconds: float = limits.GRAPH_QUERY_SECONDS
    result_bytes: int = limits.GRAPH_RESULT_BYTES_MAX


@dataclass(frozen=True, slots=True)
class PageWanted:
    """Which rows of the whole answer. The order is total and a view never changes, so pages fit together."""

    first: int = 0
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows in the order of the query, each with a cell per column. `more` says that rows follow on the next page.

    A cell of type `NodeObjectType` is a mapping of `@id` and the properties that are not null.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[GraphValue | Mapping[str, GraphValue] | None, ...], ...]
    more: bool


@dataclass(frozen=True, slots=True)
class ReadStopped:
    """The query reached a limit, named as in `base.limits`, and was ended."""

    limit: Literal["GRAPH_QUERY_SECONDS", "GRAPH_RESULT_BYTES_MAX", "GRAPH_ROWS_MAX", "GRAPH_MUTATION_SECONDS"]
    value: float


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of how the store finds the rows: what it looks at, and by which index (None: it reads all of it)."""

    entity: str
    access: Literal["lookup", "scan"]
    index: str | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How the store runs a query. Rows and milliseconds are `None` if it only explained the query."""

    statement: str
    steps: tuple[PlanStep, ...]
    estimated_cost: Literal["lookup", "scan", "product of scans"]
    rows: int | None = None
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class DiffPage:
    """Entities that differ between two views, by kind, type and id; `next_cursor` continues the page."""

    changes: tuple[EntityChange, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ExportPage:
    """Records of a view, nodes before edges, by type and id; `next_cursor` continues the page."""

    records: tuple[GraphRecord, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """What commits of a branch changed, in order. `commits` are those of this page, each with its changes.

    `cursor` names the place after the last commit of the page. `more` says that further commits follow.
    """

    commits: tuple[tuple[CommitRow, tuple[EntityChange, ...]], ...]
    cursor: str
    more: bool


class ChangeGap(msgspec.Struct, frozen=True):
    """The commits after the cursor were collected. Read an export of `oldest_commit_id`, and follow from there."""

    oldest_commit_id: str


# --- writing ----------------------------------------------------------------------------------------


class GraphCreated(msgspec.Struct, frozen=True):
    """The graph exists, with its first commit on `main`."""

    commit: CommitRow


class GraphDeleted(msgspec.Struct, frozen=True):
    """The graph is gone; its rows are removed little by little by `sweep`."""


class BranchCreated(msgspec.Struct, frozen=True):
    """The branch exists."""

    branch: BranchRow


class BranchDeleted(msgspec.Struct, frozen=True):
    """The name is free. Snapshots of its commits can be read until garbage collection."""


class Mutated(msgspec.Struct, frozen=True):
    """What a mutation did; `commit` is `None` if it matched nothing."""

    commit: CommitRow | None
    affected_nodes: int
    affected_edges: int


class LoadBegun(msgspec.Struct, frozen=True):
    """Records may be added. `branch_created` says that the branch was forked for it."""

    load_id: str
    branch_created: bool


class LoadProgress(msgspec.Struct, frozen=True):
    """How far a load is."""

    load_id: str
    records: int


class LoadNotFound(msgspec.Struct, frozen=True):
    """There is no such load: it was published or abandoned."""

    load_id: str


@dataclass(frozen=True, slots=True)
class LoadRefused:
    """The records cannot be loaded, and the load was abandoned."""

    violations: tuple[Violation, ...]


class LoadPublished(msgspec.Struct, frozen=True, kw_only=True):
    """The load is visible. Counts are of records by type."""

    commit: CommitRow | None
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: LoadMode
    nodes: dict[str, int]
    edges: dict[str, int]


class BranchesMerged(msgspec.Struct, frozen=True):
    """The target has everything that the source had. `commit` is `None` if the target was up to date."""

    outcome: MergeOutcome
    commit: CommitRow | None
    changes: int


@dataclass(frozen=True, slots=True)
class MergeTried:
    """What a merge would do. `base_commit_id` is the last commit of both; what the source changed since is merged."""

    outcome: MergeOutcome
    changes: int
    base_commit_id: str


@dataclass(frozen=True, slots=True)
class MergeConflicts:
    """Nothing was merged. At most `GRAPH_CONFLICTS_MAX` conflicts are reported of `total`."""

    conflicts: tuple[MergeConflict, ...]
    total: int


class SchemaApplied(msgspec.Struct, frozen=True):
    """The schema is in force; `commit` is `None` if it was already."""

    plan: Any
    """The `SchemaPlan`."""
    commit: CommitRow | None
    schema_version: int


@dataclass(frozen=True, slots=True)
class SchemaRefused:
    """The schema was not applied: a step is unsupported or would lose data, or the data break a new constraint."""

    plan: SchemaPlan
    violations: tuple[Violation, ...] = ()


class Flattened(msgspec.Struct, frozen=True):
    """Reads of the branch look at one branch only. `commit` is `None` if they already did."""

    commit: CommitRow | None
    rows: int


Lost: TypeAlias = GraphNotFound | BranchNotFound
Refused: TypeAlias = Lost | BranchBusy | HeadMoved
Parameters: TypeAlias = Mapping[str, GraphValue | None]

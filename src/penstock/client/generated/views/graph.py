"""What operations on graph answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = [
    "BranchDifference",
    "BranchGone",
    "BranchList",
    "BranchView",
    "ChangeAnswer",
    "ChangeCommit",
    "ChangeView",
    "ChangesOfCommit",
    "ChangesPage",
    "CommitList",
    "CommitView",
    "CommitWithChanges",
    "ConflictView",
    "Exported",
    "GraphHealth",
    "GraphList",
    "GraphView",
    "HistoryCollected",
    "LoadAnswer",
    "Loaded",
    "MergePreview",
    "Merged",
    "ParameterView",
    "PropertyOfType",
    "QueryCheck",
    "QueryList",
    "QueryPlan",
    "QueryView",
    "ReadAnswer",
    "SchemaOfGraph",
    "SchemaOutcome",
    "SnapshotView",
    "TargetView",
    "TypeOfGraph",
]


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node or an edge that was inserted, updated or deleted."""

    entity_kind: str
    type_name: str
    entity_id: str
    kind: str
    """inserted, updated or deleted."""
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class BranchDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What the source has otherwise than the target."""

    source_commit_id: str
    target_commit_id: str
    changes: list[ChangeView]
    next_cursor: str | None


class BranchGone(msgspec.Struct, frozen=True, kw_only=True):
    """The branch is gone."""

    name: str
    deleted: bool = True


class BranchView(msgspec.Struct, frozen=True, kw_only=True):
    """A branch, and where it comes from."""

    name: str
    head_commit_id: str
    parent: str | None
    fork_commit_id: str | None
    created_at: str | None
    created_by: str | None
    updated_at: str | None
    protected: bool
    loading: bool


class BranchList(msgspec.Struct, frozen=True, kw_only=True):
    """The branches of a graph, by name."""

    branches: list[BranchView]


class ChangeCommit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit of a change."""

    commit_id: str
    at: str | None


class ChangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a mutation changed."""

    query_name: str
    branch: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: ChangeCommit | None
    """Null if it matched nothing."""


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """A commit: a change of one branch, made at once."""

    commit_id: str
    branch: str
    kind: str
    parent_id: str | None
    merged_parent_id: str | None
    actor_id: str | None
    message: str | None
    at: str | None


class ChangesOfCommit(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit changed."""

    commit: CommitView
    changes: list[ChangeView]
    next_cursor: str | None


class CommitWithChanges(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, and what it changed."""

    commit: CommitView
    changes: list[ChangeView]


class ChangesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Whole commits, oldest first."""

    commits: list[CommitWithChanges]
    cursor: str
    more: bool


class CommitList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of commits, newest first."""

    commits: list[CommitView]
    next_cursor: str | None


class ConflictView(msgspec.Struct, frozen=True, kw_only=True):
    """An entity that both branches changed differently."""

    kind: str
    entity_kind: str
    type_name: str
    entity_id: str | None
    message: str


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a graph: nodes first, then edges."""

    graph_commit_id: str
    records: int
    data: str
    next_cursor: str | None


class GraphHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a graph."""

    status: str
    """ok, or broken: then `problems` says why."""
    schema_version: int
    head_commit_id: str
    queries: int
    problems: list[str]


class GraphView(msgspec.Struct, frozen=True, kw_only=True):
    """A graph, and how it is offered."""

    id: str
    title: str
    description: str | None
    schema_version: int
    allow_adhoc: bool
    protected_branches: list[str]
    tools_max: int
    queries: int
    of_settings: bool
    quarantine: str | None
    created_at: str | None
    created_by: str | None


class GraphList(msgspec.Struct, frozen=True, kw_only=True):
    """The graphs of the tenant, by id."""

    graphs: list[GraphView]


class HistoryCollected(msgspec.Struct, frozen=True, kw_only=True):
    """How much was removed, and since when snapshots are there in any case."""

    versions_removed: int
    kept_since: str | None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """How many entities."""

    name: str
    entities_loaded: int


class LoadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was loaded."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    nodes: list[Loaded]
    edges: list[Loaded]
    total_entities: int
    commit: CommitView | None
    actor_id: str


class MergePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge of these heads would do."""

    source_commit_id: str
    target_commit_id: str
    base_commit_id: str | None
    """The last commit that both have: compare the source with it. Null with conflicts."""
    outcome: str
    """already_up_to_date, fast_forward, merged or conflicts."""
    changes: int
    """How many nodes and edges of the target would change."""
    conflicts: list[ConflictView]
    total_conflicts: int


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """How the merge went."""

    source: str
    target: str
    outcome: str
    """already_up_to_date, fast_forward or merged."""
    changes: int
    commit: CommitView | None
    branch_deleted: bool = False
    branch_delete_error: str | None = None


class ParameterView(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of a query."""

    name: str
    schema: dict[str, Any]
    nullable: bool
    description: str | None


class PropertyOfType(msgspec.Struct, frozen=True, kw_only=True):
    """A property of a type."""

    name: str
    type: str
    key: bool = False


class QueryView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored query."""

    name: str
    tool_name: str
    description: str | None
    instruction: str | None
    mutation: bool
    exposed: bool
    params: list[ParameterView]
    source: str | None = None
    problem: str | None = None
    author: AuthorView | None = None


class QueryCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found."""

    valid: bool
    queries: list[QueryView]
    problems: list[dict[str, Any]]


class QueryList(msgspec.Struct, frozen=True, kw_only=True):
    """The queries that the caller may run."""

    queries: list[QueryView]
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a query is run."""

    statement: str
    steps: list[dict[str, Any]]
    estimated_cost: str
    rows: int | None
    milliseconds: float | None


class TargetView(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: a branch, or a snapshot."""

    branch: str | None = None
    snapshot: str | None = None


class ReadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a query found."""

    query_name: str
    target: TargetView
    graph_commit_id: str
    """The version that was read; pass it as `snapshot` to read it again."""
    row_count: int
    columns: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    more: bool
    """Whether there are further rows: ask again with `offset`."""


class TypeOfGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A type of nodes or edges."""

    name: str
    kind: str
    """node or edge."""
    properties: list[PropertyOfType]
    description: str | None = None
    source: str | None = None
    target: str | None = None
    implements: list[str] = msgspec.field(default_factory=list)


class SchemaOfGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The schema of a graph, as it was written, and its types."""

    schema: str
    schema_version: int
    types: list[TypeOfGraph] = msgspec.field(default_factory=list)


class SchemaOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from the old schema to the new one, and whether they were made."""

    supported: bool
    applied: bool
    step_count: int
    steps: list[dict[str, Any]]
    schema_version: int
    commit: CommitView | None


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a graph: what to name to read exactly this again."""

    branch: str | None
    graph_commit_id: str
    schema_version: int
    node_types: list[str]
    edge_types: list[str]

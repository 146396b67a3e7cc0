"""Operations on the branches of a graph: list, create, delete, compare, merge.

A branch of people or agents is merged when somebody has looked at what it changes. If the target is protected, the
merge waits for approval, and shows that difference; the approval holds only for the heads that it was shown with.

Above it: the catalogue. Below it: the port of graphs, `stored_queries`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.holds import Approval
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit
from penstock.operations.catalogue.reaching import named
from penstock.operations.gate.context import Context
from penstock.operations.graphs.views import (
    BranchView,
    ChangeView,
    CommitView,
    OneGraph,
    branch_view,
    change_view,
    commit_view,
)
from penstock.operations.stored_queries.access import (
    Branch,
    BranchOrMain,
    GraphId,
    IfGraphCommit,
    OpenedGraph,
    Snapshot,
    answered_with,
    finder,
    opened_graph,
    stamp_of,
    view_of,
)
from penstock.operations.stored_queries.permissions import branch_approvals, included_call
from penstock.operations.stored_queries.refusals import READ_ERRORS, WRITE_ERRORS, refused
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchCreated,
    BranchDeleted,
    BranchesMerged,
    DiffPage,
    MergeConflicts,
    MergeTried,
)

__all__ = ["OPERATIONS"]

_PATH = "/graphs/{graph_id}/branches"
# What a draft shows of a merge by itself; the preview shows more, and graph.diff shows all.
_SHOWN_IN_DRAFT_MAX = 20


class BranchList(msgspec.Struct, frozen=True, kw_only=True):
    """The branches of a graph, by name."""

    branches: list[BranchView]


class CreateBranch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its name, and where it begins."""

    graph_id: GraphId
    name: Branch
    source: Annotated[BranchOrMain, Meta(description="The branch that it is forked from.")] = MAIN
    snapshot: (
        Annotated[str, Meta(description="The commit that it begins at, if not the head.", max_length=100)] | None
    ) = None


class DeleteBranch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which branch."""

    graph_id: GraphId
    name: Branch


class BranchGone(msgspec.Struct, frozen=True, kw_only=True):
    """The branch is gone."""

    name: str
    deleted: bool = True


class MergeBranches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is merged into what."""

    graph_id: GraphId
    source: Branch
    target: BranchOrMain = MAIN
    delete_branch: Annotated[bool, Meta(description="Delete the source afterwards, if you may.")] = False
    if_graph_commit: IfGraphCommit = None
    if_source_commit: (
        Annotated[
            str,
            Meta(description="The head of the source that you saw; refused if it has moved on since.", max_length=100),
        ]
        | None
    ) = None
    message: Annotated[str, Meta(description="Why, for the list of commits.", max_length=1_000)] | None = None


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """How the merge went."""

    source: str
    target: str
    outcome: Annotated[str, Meta(description="already_up_to_date, fast_forward or merged.")]
    changes: int
    commit: CommitView | None
    branch_deleted: bool = False
    branch_delete_error: str | None = None


class PreviewMerge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What would be merged into what."""

    graph_id: GraphId
    source: Branch
    target: BranchOrMain = MAIN


class ConflictView(msgspec.Struct, frozen=True, kw_only=True):
    """An entity that both branches changed differently."""

    kind: str
    entity_kind: str
    type_name: str
    entity_id: str | None
    message: str


class MergePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge of these heads would do."""

    source_commit_id: str
    target_commit_id: str
    base_commit_id: Annotated[
        str | None, Meta(description="The last commit that both have: compare the source with it. Null with conflicts.")
    ]
    outcome: Annotated[str, Meta(description="already_up_to_date, fast_forward, merged or conflicts.")]
    changes: Annotated[int, Meta(description="How many nodes and edges of the target would change.")]
    conflicts: list[ConflictView]
    total_conflicts: int
    """How many there are; at most a thousand are listed."""


class DiffBranches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which two versions: branches, or commits in their place."""

    graph_id: GraphId
    source: BranchOrMain
    target: BranchOrMain = MAIN
    source_snapshot: Snapshot = None
    target_snapshot: Snapshot = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class BranchDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What the source has otherwise than the target."""

    source_commit_id: str
    target_commit_id: str
    changes: list[ChangeView]
    next_cursor: str | None


@operation(
    "graph.branches_list",
    route=Route(method="GET", path=_PATH),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm"}),),
)
async def branches_list(context: Context, given: OneGraph) -> BranchList:
    """List the branches of a graph."""
    graph = await opened_graph(context, given.graph_id)
    rows = await graph.store.branches(graph.ref)
    if not isinstance(rows, tuple):
        refused(given.graph_id, rows)
    return BranchList(branches=[branch_view(row, graph.definition.protected_branches) for row in rows])


@operation(
    "graph.branches_create",
    route=Route(method="POST", path=_PATH, status=201, other_names={"from": "source"}),
    scopes=("graph:write",),
    subject="graph_id",
    groups=("graph:branch_create",),
    find=finder("source"),
    errors=(*READ_ERRORS, "BRANCH_EXISTS", "BRANCH_NAME_INVALID", "BRANCH_TOO_DEEP"),
    examples=(Example(arguments={"graph_id": "crm", "name": "review/ada", "source": "main"}),),
)
async def branches_create(context: Context, given: CreateBranch) -> BranchView:
    """Create a branch.

    It starts with everything that the other branch has, and takes no space until it changes.
    """
    graph = await opened_graph(context, given.graph_id)
    protected = graph.definition.protected_branches
    context.call.about(None, branch=given.name)
    outcome = await graph.store.create_branch(
        graph.ref,
        given.name,
        source=given.source,
        snapshot=given.snapshot,
        stamp=stamp_of(context),
        call=answered_with(context, lambda made: branch_view(made.branch, protected)),
    )
    if not isinstance(outcome, BranchCreated):
        refused(given.graph_id, outcome)
    return branch_view(outcome.branch, protected)


async def _approvals_to_delete(context: Context, given: DeleteBranch) -> tuple[Approval, ...]:
    return await branch_approvals(context, given.graph_id, given.name)


@operation(
    "graph.branches_delete",
    route=Route(method="DELETE", path="/graphs/{graph_id}/branches/{name}"),
    scopes=("graph:write",),
    destructive=True,
    idempotent=True,
    risk="medium",
    subject="graph_id",
    groups=("graph:branch_delete",),
    approvals=_approvals_to_delete,
    find=finder("name"),
    errors=(*READ_ERRORS, "BRANCH_IN_USE", "BRANCH_BUSY"),
)
async def branches_delete(context: Context, given: DeleteBranch) -> BranchGone:
    """Delete a branch.

    Its commits can still be read as snapshots until garbage collection. A branch that others were forked from cannot be
    deleted. Deleting a protected branch waits for approval.
    """
    graph = await opened_graph(context, given.graph_id)
    context.call.about(None, branch=given.name)
    answer = BranchGone(name=given.name)
    outcome = await graph.store.delete_branch(
        graph.ref, given.name, stamp=stamp_of(context), call=answered_with(context, lambda _: answer)
    )
    return answer if isinstance(outcome, BranchDeleted) else refused(given.graph_id, outcome)


@operation(
    "graph.diff",
    route=Route(
        method="GET",
        path="/graphs/{graph_id}/diff",
        query=("source", "target", "source_snapshot", "target_snapshot", "limit", "cursor"),
    ),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "INVALID_LIST_CURSOR"),
    examples=(Example(arguments={"graph_id": "crm", "source": "review/ada"}),),
)
async def diff(context: Context, given: DiffBranches) -> BranchDifference:
    """Compare two branches or two commits.

    Lists what the source has differently from the target.
    """
    graph = await opened_graph(context, given.graph_id)
    after = await view_of(graph, given.source, given.source_snapshot)
    before = await view_of(graph, given.target, given.target_snapshot)
    page = await graph.store.diff(before, after, limit=given.limit, cursor=given.cursor)
    if not isinstance(page, DiffPage):
        refused(given.graph_id, page)
    return BranchDifference(
        source_commit_id=after.commit_id,
        target_commit_id=before.commit_id,
        changes=[change_view(change) for change in page.changes],
        next_cursor=page.next_cursor,
    )


@operation(
    "graph.branches_preview",
    route=Route(method="GET", path="/graphs/{graph_id}/merge", query=("source", "target")),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "BRANCH_BUSY"),
    examples=(Example(arguments={"graph_id": "crm", "source": "review/ada"}),),
)
async def branches_preview(context: Context, given: PreviewMerge) -> MergePreview:
    """Preview a merge.

    Says how much the merge would change, and lists the conflicts: what both branches changed differently. Nothing is
    merged. Pass the commits of the answer to graph.branches_merge to merge exactly what you saw. Constraints of the
    schema are checked when you merge.
    """
    graph = await opened_graph(context, given.graph_id)
    after, before = await view_of(graph, given.source, None), await view_of(graph, given.target, None)
    tried = await graph.store.try_merge(graph.ref, given.source, given.target)
    heads = {"source_commit_id": after.commit_id, "target_commit_id": before.commit_id}
    if isinstance(tried, MergeTried):
        return MergePreview(
            **heads,
            base_commit_id=tried.base_commit_id,
            outcome=tried.outcome.value,
            changes=tried.changes,
            conflicts=[],
            total_conflicts=0,
        )
    if not isinstance(tried, MergeConflicts):
        refused(given.graph_id, tried)
    listed = msgspec.convert(msgspec.to_builtins(tried.conflicts), list[ConflictView])
    return MergePreview(
        **heads, base_commit_id=None, outcome="conflicts", changes=0, conflicts=listed, total_conflicts=tried.total
    )


async def _approvals(context: Context, given: MergeBranches) -> tuple[Approval, ...]:
    return await branch_approvals(context, given.graph_id, given.target)


async def _looked_at(context: Context, given: MergeBranches, limit: int) -> tuple[JsonObject, list[JsonValue]]:
    """Return the heads that would be merged with how much differs, and some of what differs."""
    graph = await opened_graph(context, given.graph_id)
    after, before = await view_of(graph, given.source, None), await view_of(graph, given.target, None)
    page = await graph.store.diff(before, after, limit=limits.GRAPH_PAGE_MAX)
    if not isinstance(page, DiffPage):
        refused(given.graph_id, page)
    counts = Counter(change.kind.value for change in page.changes)
    heads: JsonObject = {
        "source_commit_id": after.commit_id,
        "target_commit_id": before.commit_id,
        "changes": {**counts, "more": page.next_cursor is not None},
    }
    return heads, [msgspec.to_builtins(change_view(change)) for change in page.changes[:limit]]


async def _witness(context: Context, given: MergeBranches) -> JsonValue:
    """Return what an approval of a merge holds for: these heads, and so this difference."""
    heads, shown = await _looked_at(context, given, _SHOWN_IN_DRAFT_MAX)
    return {**heads, "diff": shown}


async def _impact(context: Context, given: MergeBranches) -> JsonObject:
    """Return what a merge would change."""
    heads, shown = await _looked_at(context, given, limits.GRAPH_DIFF_SHOWN_MAX)
    return {**heads, "diff": shown}


@operation(
    "graph.branches_merge",
    route=Route(method="POST", path="/graphs/{graph_id}/branches/merge"),
    scopes=("graph:write",),
    destructive=True,
    idempotent=True,
    risk="medium",
    subject="graph_id",
    groups=("graph:branch_merge",),
    witness=_witness,
    impact=_impact,
    approvals=_approvals,
    find=finder("source", "target"),
    reaches=named("graph:", "graph_id"),
    errors=(*WRITE_ERRORS, "MERGE_CONFLICTS"),
    examples=(Example(arguments={"graph_id": "crm", "source": "review/ada", "target": "main"}),),
)
async def branches_merge(context: Context, given: MergeBranches) -> Merged:
    """Merge a branch into another one.

    Applies every change of the source since the branches diverged to the target, as one commit. If both changed the
    same things differently, nothing is merged, and the answer lists every conflict. A merge into a protected branch
    waits for approval.
    """
    graph = await opened_graph(context, given.graph_id)
    context.call.about(None, source=given.source, target=given.target)

    def view(outcome: BranchesMerged) -> Merged:
        return Merged(
            source=given.source,
            target=given.target,
            outcome=outcome.outcome.value,
            changes=outcome.changes,
            commit=None if outcome.commit is None else commit_view(outcome.commit),
        )

    outcome = await graph.store.merge(
        graph.ref,
        given.source,
        given.target,
        stamp=stamp_of(
            context,
            if_graph_commit=given.if_graph_commit,
            if_source_commit=given.if_source_commit,
            message=given.message,
        ),
        call=answered_with(context, view),
    )
    if isinstance(outcome, MergeConflicts) or not isinstance(outcome, BranchesMerged):
        refused(given.graph_id, outcome)
    merged = view(outcome)
    return await _without_source(context, graph, given, merged) if given.delete_branch else merged


async def _without_source(context: Context, graph: OpenedGraph, given: MergeBranches, merged: Merged) -> Merged:
    """Delete the source of a merge, if the caller may. The merge stays as it is if that is refused."""
    arguments: JsonObject = {"graph_id": given.graph_id, "name": given.source}
    if await branch_approvals(context, given.graph_id, given.source):
        message = f"{given.source} is protected; graph.branches_delete asks for approval"
        return msgspec.structs.replace(merged, branch_delete_error=message)
    try:
        await included_call(context, "graph.branches_delete", arguments)
        outcome = await graph.store.delete_branch(graph.ref, given.source, stamp=stamp_of(context))
        if not isinstance(outcome, BranchDeleted):
            refused(given.graph_id, outcome)
    except PenstockError as error:
        return msgspec.structs.replace(merged, branch_delete_error=error.message)
    return msgspec.structs.replace(merged, branch_deleted=True)


OPERATIONS: tuple[Capability, ...] = (
    branches_list,
    branches_create,
    branches_delete,
    diff,
    branches_preview,
    branches_merge,
)

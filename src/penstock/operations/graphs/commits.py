"""Operations on the history of a graph: commits, what each changed, following changes as they are made, and removing
what nobody needs any more.

Above it: the catalogue. Below it: the port of graphs.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.governance.quotas import DAY_MS
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.gate.context import Context
from penstock.operations.graphs.views import ChangeView, CommitView, change_view, commit_view
from penstock.operations.stored_queries.access import (
    Branch,
    BranchOrMain,
    GraphId,
    answered_with,
    finder,
    opened_graph,
    view_of,
)
from penstock.operations.stored_queries.refusals import READ_ERRORS, refused
from penstock.runtime.ports.graphs import MAIN, ChangePage, Collected, CommitPage, CommitRow, DiffPage, GarbagePolicy

__all__ = ["OPERATIONS"]

CommitId = Annotated[str, Meta(description="The commit.", min_length=1, max_length=100)]


class ListCommits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which commits."""

    graph_id: GraphId
    branch: Branch | None = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class CommitList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of commits, newest first."""

    commits: list[CommitView]
    next_cursor: str | None


class OneCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which commit."""

    graph_id: GraphId
    commit_id: CommitId


class CommitChanges(OneCommit, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which commit, and which page of its changes."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class ChangesOfCommit(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit changed."""

    commit: CommitView
    changes: list[ChangeView]
    next_cursor: str | None


class PollChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes."""

    graph_id: GraphId
    branch: BranchOrMain = MAIN
    after: Annotated[str, Meta(description="`cursor` of the page before; from the first commit without.")] | None = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT


class CommitWithChanges(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, and what it changed."""

    commit: CommitView
    changes: list[ChangeView]


class ChangesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Whole commits, oldest first."""

    commits: list[CommitWithChanges]
    cursor: str
    """Where to continue."""
    more: bool
    """Whether there are further commits now."""


class CollectHistory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept beside the heads of branches and the commits that they were forked at."""

    graph_id: GraphId
    keep_days: Annotated[
        int,
        Meta(description="Snapshots of this many days can still be read.", ge=0, le=limits.GRAPH_KEEP_DAYS_MAX),
    ]
    keep_commits: Annotated[
        list[CommitId],
        Meta(
            description="Snapshots of these commits, and of all that came after them on their branches, can, too.",
            max_length=limits.GRAPH_COMMITS_HELD_MAX,
        ),
    ] = []


class HistoryCollected(msgspec.Struct, frozen=True, kw_only=True):
    """How much was removed, and since when snapshots are there in any case."""

    versions_removed: int
    kept_since: str | None


@operation(
    "graph.commits_list",
    route=Route(method="GET", path="/graphs/{graph_id}/commits", query=("branch", "limit", "cursor")),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "INVALID_LIST_CURSOR"),
    examples=(Example(arguments={"graph_id": "crm", "branch": "main", "limit": 20}),),
)
async def commits_list(context: Context, given: ListCommits) -> CommitList:
    """List the commits of a graph, newest first.

    With a branch: its commits, and those of the branches that it was forked from, up to the fork.
    """
    graph = await opened_graph(context, given.graph_id)
    page = await graph.store.commits(graph.ref, branch=given.branch, limit=given.limit, cursor=given.cursor)
    if not isinstance(page, CommitPage):
        refused(given.graph_id, page)
    return CommitList(commits=[commit_view(row) for row in page.rows], next_cursor=page.next_cursor)


@operation(
    "graph.commits_get",
    route=Route(method="GET", path="/graphs/{graph_id}/commits/{commit_id}"),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=READ_ERRORS,
)
async def commits_get(context: Context, given: OneCommit) -> CommitView:
    """Get a commit."""
    graph = await opened_graph(context, given.graph_id)
    row = await graph.store.commit(graph.ref, given.commit_id)
    return commit_view(row) if isinstance(row, CommitRow) else refused(given.graph_id, row)


@operation(
    "graph.commits_changes",
    route=Route(method="GET", path="/graphs/{graph_id}/commits/{commit_id}/changes", query=("limit", "cursor")),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "INVALID_LIST_CURSOR"),
)
async def commits_changes(context: Context, given: CommitChanges) -> ChangesOfCommit:
    """Show what a commit changed, compared with the commit before it."""
    graph = await opened_graph(context, given.graph_id)
    row = await graph.store.commit(graph.ref, given.commit_id)
    if not isinstance(row, CommitRow):
        refused(given.graph_id, row)
    if row.parent_id is None:
        return ChangesOfCommit(commit=commit_view(row), changes=[], next_cursor=None)
    before, after = await view_of(graph, None, row.parent_id), await view_of(graph, None, row.commit_id)
    page = await graph.store.diff(before, after, limit=given.limit, cursor=given.cursor)
    if not isinstance(page, DiffPage):
        refused(given.graph_id, page)
    return ChangesOfCommit(
        commit=commit_view(row), changes=[change_view(item) for item in page.changes], next_cursor=page.next_cursor
    )


@operation(
    "graph.changes_poll",
    route=Route(method="GET", path="/graphs/{graph_id}/changes", query=("branch", "after", "limit")),
    scopes=("graph:read",),
    reads=True,
    subject="graph_id",
    groups=("graph:read",),
    errors=(*READ_ERRORS, "CHANGE_FEED_GAP"),
    examples=(Example(arguments={"graph_id": "crm", "branch": "main"}),),
)
async def changes_poll(context: Context, given: PollChanges) -> ChangesPage:
    """Follow the changes of a branch.

    Returns whole commits, oldest first, and a cursor. Call again with `after` set to the cursor to get later changes.
    """
    graph = await opened_graph(context, given.graph_id)
    page = await graph.store.changes(graph.ref, branch=given.branch, after=given.after, limit=given.limit)
    if not isinstance(page, ChangePage):
        refused(given.graph_id, page)
    listed = [
        CommitWithChanges(commit=commit_view(row), changes=[change_view(item) for item in changes])
        for row, changes in page.commits
    ]
    return ChangesPage(commits=listed, cursor=page.cursor, more=page.more)


@operation(
    "graph.collect",
    route=Route(method="POST", path="/graphs/{graph_id}/collect"),
    scopes=("graph:admin",),
    destructive=True,
    idempotent=True,
    risk="high",
    subject="graph_id",
    groups=("graph:admin",),
    find=finder(),
    errors=READ_ERRORS,
    examples=(Example(arguments={"graph_id": "crm", "keep_days": 90}),),
)
async def collect(context: Context, given: CollectHistory) -> HistoryCollected:
    """Remove old versions of nodes and edges permanently.

    Keeps what branches show now and what a later merge needs. Snapshots of older commits can no longer be read, unless
    they are kept; the list of commits stays. Runs continue meanwhile.
    """
    graph = await opened_graph(context, given.graph_id)
    for commit_id in given.keep_commits:
        await view_of(graph, None, commit_id)
    since = context.now_ms() - given.keep_days * DAY_MS
    policy = GarbagePolicy(keep_since=since, held_commits=tuple(given.keep_commits), limit=limits.GRAPH_SWEEP_ROWS_MAX)
    removed = 0

    def answer(collected: Collected) -> HistoryCollected:
        return HistoryCollected(versions_removed=removed + collected.rows, kept_since=instant(since))

    while True:
        outcome = await graph.store.collect(graph.ref, policy, call=answered_with(context, answer))
        if not isinstance(outcome, Collected):
            refused(given.graph_id, outcome)
        if not outcome.more:
            return answer(outcome)
        removed += outcome.rows
        await asyncio.sleep(limits.RETENTION_PAUSE_SECONDS)


OPERATIONS: tuple[Capability, ...] = (commits_list, commits_get, commits_changes, changes_poll, collect)

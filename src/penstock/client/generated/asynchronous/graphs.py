"""Operations on graph, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.graph import (
    BranchDifference,
    BranchGone,
    BranchList,
    BranchView,
    ChangeAnswer,
    ChangesOfCommit,
    ChangesPage,
    CommitList,
    CommitView,
    Exported,
    GraphHealth,
    GraphList,
    GraphView,
    HistoryCollected,
    LoadAnswer,
    Merged,
    MergePreview,
    QueryCheck,
    QueryList,
    QueryPlan,
    QueryView,
    ReadAnswer,
    SchemaOfGraph,
    SchemaOutcome,
    SnapshotView,
)
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncGraphs"]


class AsyncGraphs:
    """Operations on graph."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def list(self) -> GraphList:
        """List the graphs."""
        return await self._caller.invoke("graph.list", {}, GraphList)

    async def get(self, graph_id: str) -> GraphView:
        """Get a graph.

        Returns what is in it, and what callers may do with it.
        """
        return await self._caller.invoke("graph.get", {"graph_id": graph_id}, GraphView)

    async def create(
        self,
        *,
        id: str,
        schema: str,
        title: str | None = None,
        description: str | None = None,
        allow_adhoc: bool | None = None,
        protected_branches: str | Sequence[str] | None = None,
        tools_max: int | None = None,
        idempotency_key: str | None = None,
    ) -> GraphView:
        """Create an empty graph with a schema.

        Load nodes and edges with graph.load, and store queries with graph.queries_put: each query becomes a tool.
        """
        return await self._caller.invoke(
            "graph.create",
            {
                "id": id,
                "schema": schema,
                "title": title,
                "description": description,
                "allow_adhoc": allow_adhoc,
                "protected_branches": protected_branches,
                "tools_max": tools_max,
            },
            GraphView,
            idempotency_key=idempotency_key,
        )

    async def update(
        self,
        graph_id: str,
        *,
        title: str | None = None,
        description: str | None = None,
        allow_adhoc: bool | None = None,
        protected_branches: str | Sequence[str] | None = None,
        tools_max: int | None = None,
        idempotency_key: str | None = None,
    ) -> GraphView:
        """Change how a graph is offered.

        Changes its title and description, its protected branches, and whether callers may write their own queries.
        """
        return await self._caller.invoke(
            "graph.update",
            {
                "graph_id": graph_id,
                "title": title,
                "description": description,
                "allow_adhoc": allow_adhoc,
                "protected_branches": protected_branches,
                "tools_max": tools_max,
            },
            GraphView,
            idempotency_key=idempotency_key,
        )

    async def delete(self, graph_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """Delete a graph with all its branches, commits and stored queries."""
        return await self._caller.invoke(
            "graph.delete", {"graph_id": graph_id}, Deleted, idempotency_key=idempotency_key
        )

    async def health(self, graph_id: str) -> GraphHealth:
        """Check a graph.

        Returns its head, and the stored queries that no longer fit its schema.
        """
        return await self._caller.invoke("graph.health", {"graph_id": graph_id}, GraphHealth)

    async def snapshot(self, graph_id: str, *, branch: str | None = None, snapshot: str | None = None) -> SnapshotView:
        """Get the present version of a branch.

        Pass `graph_commit_id` as `snapshot` to several reads, so that all of them see the same version.
        """
        return await self._caller.invoke(
            "graph.snapshot", {"graph_id": graph_id, "branch": branch, "snapshot": snapshot}, SnapshotView
        )

    async def schema_get(self, graph_id: str) -> SchemaOfGraph:
        """Get the schema of a graph.

        Returns its types of nodes and edges, with their properties.
        """
        return await self._caller.invoke("graph.schema_get", {"graph_id": graph_id}, SchemaOfGraph)

    async def schema_apply(
        self,
        graph_id: str,
        *,
        schema: str,
        dry_run: bool | None = None,
        allow_data_loss: bool | None = None,
        if_graph_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaOutcome:
        """Change the schema of a graph, or show the steps (`dry_run`).

        Refused if a stored query would not fit the schema, if the data break a new constraint, or if a step is not
        supported. Dropped data can still be read in older snapshots, unless `allow_data_loss` is set.
        """
        return await self._caller.invoke(
            "graph.schema_apply",
            {
                "graph_id": graph_id,
                "schema": schema,
                "dry_run": dry_run,
                "allow_data_loss": allow_data_loss,
                "if_graph_commit": if_graph_commit,
            },
            SchemaOutcome,
            idempotency_key=idempotency_key,
        )

    async def branches_list(self, graph_id: str) -> BranchList:
        """List the branches of a graph."""
        return await self._caller.invoke("graph.branches_list", {"graph_id": graph_id}, BranchList)

    async def branches_create(
        self,
        graph_id: str,
        *,
        name: str,
        source: str | None = None,
        snapshot: str | None = None,
        idempotency_key: str | None = None,
    ) -> BranchView:
        """Create a branch.

        It starts with everything that the other branch has, and takes no space until it changes.
        """
        return await self._caller.invoke(
            "graph.branches_create",
            {"graph_id": graph_id, "name": name, "source": source, "snapshot": snapshot},
            BranchView,
            idempotency_key=idempotency_key,
        )

    async def branches_delete(self, graph_id: str, name: str, *, idempotency_key: str | None = None) -> BranchGone:
        """Delete a branch.

        Its commits can still be read as snapshots until garbage collection. A branch that others were forked from
        cannot be deleted. Deleting a protected branch waits for approval.
        """
        return await self._caller.invoke(
            "graph.branches_delete", {"graph_id": graph_id, "name": name}, BranchGone, idempotency_key=idempotency_key
        )

    async def diff(
        self,
        graph_id: str,
        *,
        source: str,
        target: str | None = None,
        source_snapshot: str | None = None,
        target_snapshot: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> BranchDifference:
        """Compare two branches or two commits.

        Lists what the source has differently from the target.
        """
        return await self._caller.invoke(
            "graph.diff",
            {
                "graph_id": graph_id,
                "source": source,
                "target": target,
                "source_snapshot": source_snapshot,
                "target_snapshot": target_snapshot,
                "limit": limit,
                "cursor": cursor,
            },
            BranchDifference,
        )

    async def branches_preview(self, graph_id: str, *, source: str, target: str | None = None) -> MergePreview:
        """Preview a merge.

        Says how much the merge would change, and lists the conflicts: what both branches changed differently.
        Nothing is merged. Pass the commits of the answer to graph.branches_merge to merge exactly what you saw.
        Constraints of the schema are checked when you merge.
        """
        return await self._caller.invoke(
            "graph.branches_preview", {"graph_id": graph_id, "source": source, "target": target}, MergePreview
        )

    async def branches_merge(
        self,
        graph_id: str,
        *,
        source: str,
        target: str | None = None,
        delete_branch: bool | None = None,
        if_graph_commit: str | None = None,
        if_source_commit: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> Merged:
        """Merge a branch into another one.

        Applies every change of the source since the branches diverged to the target, as one commit. If both changed
        the same things differently, nothing is merged, and the answer lists every conflict. A merge into a
        protected branch waits for approval.
        """
        return await self._caller.invoke(
            "graph.branches_merge",
            {
                "graph_id": graph_id,
                "source": source,
                "target": target,
                "delete_branch": delete_branch,
                "if_graph_commit": if_graph_commit,
                "if_source_commit": if_source_commit,
                "message": message,
            },
            Merged,
            idempotency_key=idempotency_key,
        )

    async def commits_list(
        self, graph_id: str, *, branch: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> CommitList:
        """List the commits of a graph, newest first.

        With a branch: its commits, and those of the branches that it was forked from, up to the fork.
        """
        return await self._caller.invoke(
            "graph.commits_list", {"graph_id": graph_id, "branch": branch, "limit": limit, "cursor": cursor}, CommitList
        )

    async def commits_get(self, graph_id: str, commit_id: str) -> CommitView:
        """Get a commit."""
        return await self._caller.invoke(
            "graph.commits_get", {"graph_id": graph_id, "commit_id": commit_id}, CommitView
        )

    async def commits_changes(
        self, graph_id: str, commit_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> ChangesOfCommit:
        """Show what a commit changed, compared with the commit before it."""
        return await self._caller.invoke(
            "graph.commits_changes",
            {"graph_id": graph_id, "commit_id": commit_id, "limit": limit, "cursor": cursor},
            ChangesOfCommit,
        )

    async def changes_poll(
        self, graph_id: str, *, branch: str | None = None, after: str | None = None, limit: int | None = None
    ) -> ChangesPage:
        """Follow the changes of a branch.

        Returns whole commits, oldest first, and a cursor. Call again with `after` set to the cursor to get later
        changes.
        """
        return await self._caller.invoke(
            "graph.changes_poll", {"graph_id": graph_id, "branch": branch, "after": after, "limit": limit}, ChangesPage
        )

    async def collect(
        self,
        graph_id: str,
        *,
        keep_days: int,
        keep_commits: str | Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> HistoryCollected:
        """Remove old versions of nodes and edges permanently.

        Keeps what branches show now and what a later merge needs. Snapshots of older commits can no longer be read,
        unless they are kept; the list of commits stays. Runs continue meanwhile.
        """
        return await self._caller.invoke(
            "graph.collect",
            {"graph_id": graph_id, "keep_days": keep_days, "keep_commits": keep_commits},
            HistoryCollected,
            idempotency_key=idempotency_key,
        )

    async def queries_list(self, graph_id: str, *, filter: str | None = None) -> QueryList:
        """List the stored queries of a graph that you may run.

        Returns them with their parameters. Run one with graph.query_run, or with its own tool.
        """
        return await self._caller.invoke("graph.queries_list", {"graph_id": graph_id, "filter": filter}, QueryList)

    async def queries_get(self, graph_id: str, name: str) -> QueryView:
        """Get a stored query with its source."""
        return await self._caller.invoke("graph.queries_get", {"graph_id": graph_id, "name": name}, QueryView)

    async def queries_put(
        self,
        graph_id: str,
        name: str,
        *,
        source: str,
        expose: bool | None = None,
        tool_name: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueryView:
        """Store a query, or replace it.

        The query is checked against the schema of the graph, and becomes a tool. Its name is that of the
        declaration. A query that is not exposed is not listed as a tool, but can be run by name.
        """
        return await self._caller.invoke(
            "graph.queries_put",
            {"graph_id": graph_id, "name": name, "source": source, "expose": expose, "tool_name": tool_name},
            QueryView,
            idempotency_key=idempotency_key,
        )

    async def queries_delete(self, graph_id: str, name: str, *, idempotency_key: str | None = None) -> Deleted:
        """Delete a stored query.

        Its tool disappears with it.
        """
        return await self._caller.invoke(
            "graph.queries_delete", {"graph_id": graph_id, "name": name}, Deleted, idempotency_key=idempotency_key
        )

    async def queries_validate(self, graph_id: str, *, source: str, schema: str | None = None) -> QueryCheck:
        """Check queries against the schema of a graph.

        Nothing is stored.
        """
        return await self._caller.invoke(
            "graph.queries_validate", {"graph_id": graph_id, "source": source, "schema": schema}, QueryCheck
        )

    async def queries_explain(
        self,
        graph_id: str,
        name: str,
        *,
        params: Mapping[str, Any] | None = None,
        branch: str | None = None,
        snapshot: str | None = None,
        run: bool | None = None,
    ) -> QueryPlan:
        """Explain how a stored query runs.

        Says what it looks up by an index, and what it reads completely.
        """
        return await self._caller.invoke(
            "graph.queries_explain",
            {"graph_id": graph_id, "name": name, "params": params, "branch": branch, "snapshot": snapshot, "run": run},
            QueryPlan,
        )

    async def query_run(
        self,
        graph_id: str,
        name: str,
        *,
        params: Mapping[str, Any] | None = None,
        branch: str | None = None,
        snapshot: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        if_graph_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> ReadAnswer | ChangeAnswer:
        """Run a stored query.

        Works for queries that are not exposed, too; find one with graph.queries_list. Pass its parameters in
        `params`. A read returns rows, a mutation what it changed. 64-bit integers are strings in rows.
        """
        answer: ReadAnswer | ChangeAnswer = await self._caller.invoke_any(
            "graph.query_run",
            {
                "graph_id": graph_id,
                "name": name,
                "params": params,
                "branch": branch,
                "snapshot": snapshot,
                "limit": limit,
                "offset": offset,
                "if_graph_commit": if_graph_commit,
            },
            (ReadAnswer, ChangeAnswer),
            idempotency_key=idempotency_key,
        )
        return answer

    async def query(
        self,
        graph_id: str,
        *,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str | None = None,
        snapshot: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> ReadAnswer:
        """Run a query that you write yourself.

        Works only if the graph allows it; otherwise run a stored query with graph.query_run. The answer names the
        version that was read: pass it as `snapshot` to read the same version again.
        """
        return await self._caller.invoke(
            "graph.query",
            {
                "graph_id": graph_id,
                "query": query,
                "name": name,
                "params": params,
                "branch": branch,
                "snapshot": snapshot,
                "limit": limit,
                "offset": offset,
            },
            ReadAnswer,
        )

    async def mutate(
        self,
        graph_id: str,
        *,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str | None = None,
        if_graph_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> ChangeAnswer:
        """Run a mutation that you write yourself.

        Works only if the graph allows it; otherwise run a stored query with graph.query_run. The change is one
        commit on the branch, or nothing. With `if_graph_commit`, it is refused if the branch has moved on.
        """
        return await self._caller.invoke(
            "graph.mutate",
            {
                "graph_id": graph_id,
                "query": query,
                "name": name,
                "params": params,
                "branch": branch,
                "if_graph_commit": if_graph_commit,
            },
            ChangeAnswer,
            idempotency_key=idempotency_key,
        )

    async def load(
        self,
        graph_id: str,
        *,
        data: str,
        mode: Literal["append", "merge", "overwrite"] | None = None,
        branch: str | None = None,
        source: str | None = None,
        if_graph_commit: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> LoadAnswer:
        """Load nodes and edges, all of them or none.

        The load is one commit on the branch. With `source`, a branch that does not exist is forked first, which
        needs the right to create branches.
        """
        return await self._caller.invoke(
            "graph.load",
            {
                "graph_id": graph_id,
                "data": data,
                "mode": mode,
                "branch": branch,
                "source": source,
                "if_graph_commit": if_graph_commit,
                "message": message,
            },
            LoadAnswer,
            idempotency_key=idempotency_key,
        )

    async def export(
        self,
        graph_id: str,
        *,
        branch: str | None = None,
        snapshot: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Exported:
        """Export the nodes and edges of a version.

        Returns them page by page, in the form that graph.load takes.
        """
        return await self._caller.invoke(
            "graph.export",
            {"graph_id": graph_id, "branch": branch, "snapshot": snapshot, "cursor": cursor, "limit": limit},
            Exported,
        )

"""Operations on workflow, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.execution import ExecutionHandle, ExecutionPage, ExecutionSummary, ExecutionView
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.workflow import (
    Bundle,
    Difference,
    Drawing,
    Imported,
    SimulatedRun,
    TestReport,
    Validation,
    WorkflowPage,
    WorkflowSummary,
    WorkflowView,
)

__all__ = ["AsyncWorkflows"]


class AsyncWorkflows:
    """Operations on workflow."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        document: Mapping[str, Any] | None = None,
        source: str | None = None,
        id: str | None = None,
        name: str | None = None,
        tasks: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        idempotency_key: str | None = None,
    ) -> WorkflowView:
        """Create a workflow.

        Stores the first version of a workflow, after checking it completely. Send the document as an object or as
        text. Refused if the name is taken; then call workflow.update. Start it with workflow.execute.
        """
        return await self._caller.invoke(
            "workflow.create",
            {"document": document, "source": source, "id": id, "name": name, "tasks": tasks},
            WorkflowView,
            idempotency_key=idempotency_key,
        )

    async def get(self, workflow_id: str, *, hash: str | None = None) -> WorkflowView:
        """Get a workflow.

        Returns the document, the schemas of input and output, and the hash of the version. Get an older version by
        its hash.
        """
        return await self._caller.invoke("workflow.get", {"workflow_id": workflow_id, "hash": hash}, WorkflowView)

    async def list(
        self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> WorkflowPage:
        """List workflows.

        Returns names with titles and descriptions, ordered by name. Use it to find a workflow to start with
        workflow.execute.
        """
        return await self._caller.invoke(
            "workflow.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, WorkflowPage
        )

    async def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> AsyncIterator[WorkflowSummary]:
        """List workflows: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("workflow.list", {"prefix": prefix, "limit": limit}, WorkflowPage):
            for item in page.items:
                yield item

    async def update(
        self,
        workflow_id: str,
        *,
        document: Mapping[str, Any] | None = None,
        source: str | None = None,
        name: str | None = None,
        tasks: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> WorkflowView:
        """Change a workflow.

        Stores a new version after checking it completely; existing runs keep theirs. Send the ETag that you read as
        If-Match; the call is then refused if the workflow has changed since.
        """
        return await self._caller.invoke(
            "workflow.update",
            {
                "workflow_id": workflow_id,
                "document": document,
                "source": source,
                "name": name,
                "tasks": tasks,
                "if_match": if_match,
            },
            WorkflowView,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self, workflow_id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Delete a workflow.

        It can no longer be started. Existing runs continue, and their versions are kept. Its schedules stop.
        """
        return await self._caller.invoke(
            "workflow.delete",
            {"workflow_id": workflow_id, "if_match": if_match},
            Deleted,
            idempotency_key=idempotency_key,
        )

    async def validate(self, *, document: Mapping[str, Any] | None = None, source: str | None = None) -> Validation:
        """Check a workflow document.

        Finds every mistake at once, with places and hints, and stores nothing. If you send text, mistakes have line
        numbers too.
        """
        return await self._caller.invoke("workflow.validate", {"document": document, "source": source}, Validation)

    async def versions(self, workflow_id: str, *, limit: int | None = None, cursor: str | None = None) -> WorkflowPage:
        """List the versions of a workflow.

        Newest first. Get one by its hash with workflow.get, or compare two with workflow.diff.
        """
        return await self._caller.invoke(
            "workflow.versions", {"workflow_id": workflow_id, "limit": limit, "cursor": cursor}, WorkflowPage
        )

    async def versions_all(self, workflow_id: str, *, limit: int | None = None) -> AsyncIterator[WorkflowSummary]:
        """List the versions of a workflow: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages(
            "workflow.versions", {"workflow_id": workflow_id, "limit": limit}, WorkflowPage
        ):
            for item in page.items:
                yield item

    async def diff(
        self,
        workflow_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        document: Mapping[str, Any] | None = None,
        source: str | None = None,
    ) -> Difference:
        """Compare versions of a workflow.

        Compares two stored versions by hash, or a stored version with a document. Says what differs and whether it
        breaks callers.
        """
        return await self._caller.invoke(
            "workflow.diff",
            {"workflow_id": workflow_id, "before": before, "after": after, "document": document, "source": source},
            Difference,
        )

    async def export(self, *, prefix: str | None = None) -> Bundle:
        """Export workflows.

        Returns the newest documents in one bundle, which workflow.import takes.
        """
        return await self._caller.invoke("workflow.export", {"prefix": prefix}, Bundle)

    async def import_(
        self,
        *,
        workflows: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        overwrite: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Imported:
        """Import workflows.

        Checks all documents first, and stores all of them or none. Workflows that exist are skipped unless
        `overwrite` is set.
        """
        return await self._caller.invoke(
            "workflow.import",
            {"workflows": workflows, "overwrite": overwrite},
            Imported,
            idempotency_key=idempotency_key,
        )

    async def executions(
        self,
        workflow_id: str,
        *,
        status: str | Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ExecutionPage:
        """List the runs of a workflow.

        Newest first, of all its versions; works for deleted workflows too.
        """
        return await self._caller.invoke(
            "workflow.executions",
            {"workflow_id": workflow_id, "status": status, "limit": limit, "cursor": cursor},
            ExecutionPage,
        )

    async def executions_all(
        self, workflow_id: str, *, status: str | Sequence[str] | None = None, limit: int | None = None
    ) -> AsyncIterator[ExecutionSummary]:
        """List the runs of a workflow: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages(
            "workflow.executions", {"workflow_id": workflow_id, "status": status, "limit": limit}, ExecutionPage
        ):
            for item in page.items:
                yield item

    async def execute(
        self,
        workflow_id: str,
        *,
        input: Any = None,
        sync: bool | None = None,
        wait_seconds: float | None = None,
        execution_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: str | None = None,
        hash: str | None = None,
        mode: Literal["host_mediated", "in_process"] | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionView | ExecutionHandle:
        """Start a workflow.

        Starts a durable run of the newest version and returns a handle at once; look at it with execution.status or
        wait for it with execution.wait. With `sync`, the call waits for a limited time and returns the finished
        run; if the run takes longer, it returns the handle and the run continues.
        """
        answer: ExecutionView | ExecutionHandle = await self._caller.invoke_any(
            "workflow.execute",
            {
                "workflow_id": workflow_id,
                "input": input,
                "sync": sync,
                "wait_seconds": wait_seconds,
                "execution_id": execution_id,
                "labels": labels,
                "timeout": timeout,
                "hash": hash,
                "mode": mode,
            },
            (ExecutionView, ExecutionHandle),
            idempotency_key=idempotency_key,
        )
        return answer

    async def draw(
        self, workflow_id: str, *, hash: str | None = None, nodes_from: int | None = None, limit: int | None = None
    ) -> Drawing:
        """Draw a workflow.

        Returns an SVG drawing without styles and scripts, for pages that have the styles, and its nodes and routes
        as a list, of which `nodes_from` and `limit` select a part.
        """
        return await self._caller.invoke(
            "workflow.draw",
            {"workflow_id": workflow_id, "hash": hash, "nodes_from": nodes_from, "limit": limit},
            Drawing,
        )

    async def test(self, workflow_id: str, *, hash: str | None = None, case: str | None = None) -> TestReport:
        """Run the test cases of a workflow.

        Runs the cases in its document (`tests`) in memory: activities return what the case says, and nothing is
        called. Child workflows are used as they are stored now.
        """
        return await self._caller.invoke(
            "workflow.test", {"workflow_id": workflow_id, "hash": hash, "case": case}, TestReport
        )

    async def simulate(
        self,
        workflow_id: str,
        *,
        hash: str | None = None,
        input: Any = None,
        mocks: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
    ) -> SimulatedRun:
        """Simulate a workflow.

        Says which nodes a run with this input would visit and how it would end. Nothing is called and nothing is
        stored. It goes as far as it can without the results of activities, unless `mocks` has them.
        """
        return await self._caller.invoke(
            "workflow.simulate",
            {"workflow_id": workflow_id, "hash": hash, "input": input, "mocks": mocks, "answers": answers},
            SimulatedRun,
        )

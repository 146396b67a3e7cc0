"""Operations on task, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.task import TaskList, TaskView

__all__ = ["AsyncTasks"]


class AsyncTasks:
    """Operations on task."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        workflow_id: str,
        *,
        task: Mapping[str, Any],
        after: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> TaskView:
        """Add a task to a workflow.

        The node goes to the end, or after the one named. Makes a new version of the workflow, which is checked
        completely.
        """
        return await self._caller.invoke(
            "task.create",
            {"workflow_id": workflow_id, "task": task, "after": after, "if_match": if_match},
            TaskView,
            idempotency_key=idempotency_key,
        )

    async def get(self, workflow_id: str, task_id: str) -> TaskView:
        """Get a task of a workflow.

        The node as it stands in the newest version of the workflow.
        """
        return await self._caller.invoke("task.get", {"workflow_id": workflow_id, "task_id": task_id}, TaskView)

    async def list(self, workflow_id: str) -> TaskList:
        """List the tasks of a workflow.

        Its nodes in their order.
        """
        return await self._caller.invoke("task.list", {"workflow_id": workflow_id}, TaskList)

    async def update(
        self,
        workflow_id: str,
        task_id: str,
        *,
        task: Mapping[str, Any],
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> TaskView:
        """Change a task of a workflow.

        Replaces the node. Makes a new version of the workflow, which is checked completely.
        """
        return await self._caller.invoke(
            "task.update",
            {"workflow_id": workflow_id, "task_id": task_id, "task": task, "if_match": if_match},
            TaskView,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self, workflow_id: str, task_id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Remove a task from a workflow.

        Makes a new version of the workflow without the node; refused if others still lead to it.
        """
        return await self._caller.invoke(
            "task.delete",
            {"workflow_id": workflow_id, "task_id": task_id, "if_match": if_match},
            Deleted,
            idempotency_key=idempotency_key,
        )

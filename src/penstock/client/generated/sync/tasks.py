"""Operations on task, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.caller import Caller
from penstock.client.generated.views.execution import ExecutionHandle, ExecutionResult
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.task import TaskList, TaskView

__all__ = ["Tasks"]


class Tasks:
    """Operations on task."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
        self,
        workflow_id: str,
        *,
        task: Mapping[str, Any],
        after: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> TaskView:
        """Add a task to a workflow.

        Adds the node at the end, or after the one that you name. Makes a new version of the workflow, which is
        checked completely.
        """
        return self._caller.invoke(
            "task.create",
            {"workflow_id": workflow_id, "task": task, "after": after, "if_match": if_match},
            TaskView,
            idempotency_key=idempotency_key,
        )

    def get(self, workflow_id: str, task_id: str) -> TaskView:
        """Get a task of a workflow.

        Returns the node as it is in the newest version of the workflow.
        """
        return self._caller.invoke("task.get", {"workflow_id": workflow_id, "task_id": task_id}, TaskView)

    def list(self, workflow_id: str) -> TaskList:
        """List the tasks of a workflow.

        Returns its nodes in their order.
        """
        return self._caller.invoke("task.list", {"workflow_id": workflow_id}, TaskList)

    def update(
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
        return self._caller.invoke(
            "task.update",
            {"workflow_id": workflow_id, "task_id": task_id, "task": task, "if_match": if_match},
            TaskView,
            idempotency_key=idempotency_key,
        )

    def delete(
        self, workflow_id: str, task_id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Remove a task from a workflow.

        Makes a new version of the workflow without the node. Refused if other nodes lead to it.
        """
        return self._caller.invoke(
            "task.delete",
            {"workflow_id": workflow_id, "task_id": task_id, "if_match": if_match},
            Deleted,
            idempotency_key=idempotency_key,
        )

    def execute(
        self,
        *,
        workflow_id: str | None = None,
        task_id: str | None = None,
        task: Mapping[str, Any] | None = None,
        input: Any = None,
        results: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        sync: bool | None = None,
        wait_seconds: float | None = None,
        execution_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle | ExecutionResult:
        """Run one task: a node of a workflow, or one that you send.

        Works for nodes that do work: a step, a request, a call of a tool, a model or an agent, a query. Its
        expressions read `input`, `state` and `results` of the call. Earlier nodes of its workflow do not run,
        approvals included. Starts a durable run and returns a handle at once; with `sync`, it waits for a limited
        time.
        """
        answer: ExecutionHandle | ExecutionResult = self._caller.invoke_any(
            "task.execute",
            {
                "workflow_id": workflow_id,
                "task_id": task_id,
                "task": task,
                "input": input,
                "results": results,
                "state": state,
                "sync": sync,
                "wait_seconds": wait_seconds,
                "execution_id": execution_id,
                "labels": labels,
            },
            (ExecutionHandle, ExecutionResult),
            idempotency_key=idempotency_key,
        )
        return answer

"""The tasks extension: a call that takes longer is an execution to come back to.

A task is an execution and its id is the execution's id: there is nothing else to store, and everything about it is read
and changed through the gate with the caller's own key. A failed execution is a completed task whose result is an error.

Above it: `server`. Below it: `calls`, the views of executions. Nothing here knows the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.base.errors import NotFound, PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.calls import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PROTOCOL_ERROR,
    TASKS_EXTENSION,
    Caller,
    Filled,
    ProtocolFault,
    ask_gate,
)
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions import Form, form_of, input_requests
from penstock.mcp_surface.results import execution_result
from penstock.mcp_surface.tools import ToolShelf
from penstock.operations.attending import ExecutionResult
from penstock.operations.execution_views import ExecutionView
from penstock.operations.pipeline import Gate
from penstock.operations.views import MCP_TASK_STATUS

__all__ = ["TASKS_EXTENSION", "TaskCalls", "task_of"]

_POLL_MS = 1_000
_NOTHING_TO_DO = ("ALREADY_ANSWERED", "NO_OPEN_QUESTION", "CANCEL_NOT_ALLOWED", "RUN_ENDED")


def task_of(view: ExecutionView, forms: list[Form]) -> JsonObject:
    """An execution as a task. One that asks what no form can ask goes on working; its message says that it waits."""
    status = MCP_TASK_STATUS[view.status]
    if view.error is not None and view.error.code == PROTOCOL_ERROR and view.status == "failed":
        status = "failed"
    if status == "input_required" and not forms:
        status = "working"
    return {
        "taskId": view.execution_id,
        "status": status,
        "statusMessage": view.status,
        "createdAt": view.created_at,
        "lastUpdatedAt": view.updated_at,
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }


def _forms(view: ExecutionView) -> list[Form]:
    forms = (form_of(question) for question in view.waiting_for.questions)
    return [form for form in forms if form is not None]


class TaskCalls:
    """The methods of the extension."""

    def __init__(self, gate: Gate, shelf: ToolShelf, options: McpOptions) -> None:
        self._gate = gate
        self._shelf = shelf
        self._options = options

    async def _view(self, caller: Caller, task_id: str) -> ExecutionView:
        """The execution of a task; one that the caller may not see is as unknown as one that there is not."""
        try:
            value = await ask_gate(self._gate, caller, "execution.status", {"execution_id": task_id})
        except PenstockError as error:
            if isinstance(error, NotFound) or error.code in ("SCOPE_REQUIRED", "INVALID_ARGUMENTS"):
                raise ProtocolFault(INVALID_PARAMS, "Unknown task") from None
            raise
        assert isinstance(value, ExecutionView)
        return value

    async def created(self, caller: Caller, execution_id: str) -> JsonObject:
        """What a call is answered with that became a task."""
        view = await self._view(caller, execution_id)
        return {"resultType": "task", **task_of(view, _forms(view))}

    async def get(self, caller: Caller, task_id: str) -> JsonObject:
        """How a task stands, with its questions or its result."""
        view = await self._view(caller, task_id)
        forms = _forms(view)
        task: JsonObject = {"resultType": "complete", **task_of(view, forms)}
        if task["status"] == "input_required":
            task["inputRequests"] = input_requests(forms)
        if task["status"] == "failed" and view.error is not None:
            task["error"] = {"code": INTERNAL_ERROR, "message": view.error.message}
        if task["status"] == "completed":
            book = await self._shelf.of(caller.principal, caller.toolset)
            task["result"] = execution_result(_result_of(view), book, self._options.result_characters)
        return task

    async def update(self, caller: Caller, task_id: str, filled: Mapping[str, Filled]) -> JsonObject:
        """Answer questions of a task. What was answered before, by whomever, is acknowledged and changes nothing."""
        forms = {form.key: form for form in _forms(await self._view(caller, task_id))}
        for key, answer in filled.items():
            form = forms.get(key)
            if form is None or answer.action != "accept":
                continue
            arguments: JsonObject = {
                "execution_id": task_id,
                "interrupt_id": form.interrupt_id,
                "answer": form.answer(answer.content),
            }
            await self._acknowledged(caller, "execution.answer", arguments)
        return {"resultType": "complete"}

    async def cancel(self, caller: Caller, task_id: str) -> JsonObject:
        """Ask the execution to stop; one that has ended stays as it is."""
        await self._view(caller, task_id)
        await self._acknowledged(
            caller, "execution.cancel", {"execution_id": task_id, "reason": "cancelled by the MCP client"}
        )
        return {"resultType": "complete"}

    async def _acknowledged(self, caller: Caller, operation: str, arguments: JsonObject) -> None:
        try:
            await ask_gate(self._gate, caller, operation, arguments)
        except PenstockError as error:
            if error.code not in _NOTHING_TO_DO:
                raise


def _result_of(view: ExecutionView) -> ExecutionResult:
    output: JsonValue = msgspec.to_builtins(view.output)
    return ExecutionResult(
        execution_id=view.execution_id,
        workflow_id=view.workflow_id,
        status=view.status,
        sequence=view.sequence,
        output=output,
        error=view.error,
    )

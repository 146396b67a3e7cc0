"""The tasks extension: a long call becomes a task that the client polls.

A task is a run, and its id is the run's id. So there is nothing else to store, and everything about a task
is read and changed through the gate with the caller's own key. A failed run is a completed task whose result is
an error. This module does not import the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec

from penstock.base.errors import NotFound, PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import TASKS_EXTENSION, Caller, ProtocolFault, call_operation
from penstock.mcp_surface.content.results import execution_result
from penstock.mcp_surface.content.waiting_text import is_for_person, status_line
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.client_questions import (
    CLIENT_KINDS,
    ClientQuestion,
    Kind,
    input_requests,
)
from penstock.mcp_surface.questions.clients import ALREADY_ANSWERED, ClientAnswer
from penstock.mcp_surface.questions.links import AnswerLinks
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.wire.codes import INTERNAL_ERROR, INVALID_PARAMS
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.fields import MCP_TASK_STATUS
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ExecutionView
from penstock.operations.runs.waits import QuestionView

__all__ = ["TASKS_EXTENSION", "Tasks", "task_of"]

_POLL_MS = 1_000
_NOTHING_TO_DO = (*ALREADY_ANSWERED, "CANCEL_NOT_ALLOWED", "RUN_ENDED")
_FORMS: frozenset[Kind] = frozenset({"form"})


def task_of(
    view: ExecutionView, questions: Sequence[QuestionView], message: str, protocol_faults: Set[str] = frozenset()
) -> JsonObject:
    """Return a run as a task; `questions` are all open ones, including those of child runs.

    A task that waits for somebody says so even to a client that cannot be asked: its message says who answers and
    where.
    """
    status = MCP_TASK_STATUS[view.status]
    if view.error is not None and view.error.code in protocol_faults and view.status == "failed":
        status = "failed"
    if is_for_person(view.status, questions):
        status = "input_required"
    return {
        "taskId": view.execution_id,
        "status": status,
        "statusMessage": message,
        "createdAt": view.created_at,
        "lastUpdatedAt": view.updated_at,
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
    }


class Tasks:
    """Reads, answers and cancels tasks for all callers."""

    def __init__(self, gate: Gate, registry: ToolRegistry, options: McpOptions) -> None:
        self._gate = gate
        self._registry = registry
        self._options = options
        self._links = AnswerLinks(gate.services, options.answer_path)

    def _task(self, caller: Caller, view: ExecutionView, questions: list[QuestionView]) -> JsonObject:
        message = status_line(view, questions, self._options.answer_page(caller.address))
        return task_of(view, questions, message, self._options.protocol_faults)

    async def _questions(self, caller: Caller, view: ExecutionView) -> list[QuestionView]:
        """Return the open questions of a task, including those of child runs."""
        if not view.waiting_for.children:
            return view.waiting_for.questions
        arguments: JsonObject = {"execution_id": view.execution_id, "wait_seconds": 0}
        result = await call_operation(self._gate, caller, "execution.wait", arguments)
        assert isinstance(result, ExecutionResult)
        return result.questions

    async def _view(self, caller: Caller, task_id: str) -> ExecutionView:
        """Return the run of a task; one that the caller may not see is unknown to them."""
        try:
            value = await call_operation(self._gate, caller, "execution.status", {"execution_id": task_id})
        except PenstockError as error:
            if isinstance(error, NotFound) or error.code in ("SCOPE_REQUIRED", "INVALID_ARGUMENTS"):
                raise ProtocolFault(INVALID_PARAMS, "Unknown task", on_record=error.on_record) from None
            raise
        assert isinstance(value, ExecutionView)
        return value

    async def _shown_asks(
        self, caller: Caller, view: ExecutionView, questions: list[QuestionView], kinds: Set[Kind]
    ) -> list[ClientQuestion]:
        """Return the questions that the client can be asked; none for a caller who may not answer."""
        asks = self._links.askable(caller, view.execution_id, questions, kinds)
        if not asks:
            return []
        tool_list = caller.tool_list or await self._registry.of(caller.principal, caller.toolset, caller.remote)
        return asks if "execution.answer" in tool_list.operations else []

    async def created(self, caller: Caller, execution_id: str) -> JsonObject:
        """Return the result of a call that became a task."""
        view = await self._view(caller, execution_id)
        return {"resultType": "task", **self._task(caller, view, await self._questions(caller, view))}

    async def get(self, caller: Caller, task_id: str, kinds: Set[Kind] = _FORMS) -> JsonObject:
        """Return the status of a task, with its result or with the questions of the kinds that the client supports."""
        view = await self._view(caller, task_id)
        questions = await self._questions(caller, view)
        task: JsonObject = {"resultType": "complete", **self._task(caller, view, questions)}
        if task["status"] == "input_required":
            task["inputRequests"] = input_requests(await self._shown_asks(caller, view, questions, kinds))
        if task["status"] == "failed" and view.error is not None:
            task["error"] = {"code": INTERNAL_ERROR, "message": view.error.message}
        if task["status"] == "completed":
            tool_list = caller.tool_list or await self._registry.of(caller.principal, caller.toolset, caller.remote)
            task["result"] = execution_result(_result_of(view), tool_list, self._options.result_characters)
        return task

    async def update(
        self, caller: Caller, task_id: str, answers: Mapping[str, ClientAnswer], kinds: Set[Kind] = _FORMS
    ) -> JsonObject:
        """Answer questions of a task. One that was answered before, by anybody, is acknowledged without effect."""
        view = await self._view(caller, task_id)
        questions = await self._questions(caller, view)
        askable = self._links.askable(caller, view.execution_id, questions, kinds)
        asks = {ask.key: ask for ask in askable}
        for key, given in answers.items():
            ask = asks.get(key)
            answer = None if ask is None else _answer(ask, given)
            if ask is None or answer is None:
                continue
            asking = ask.execution_id or task_id
            arguments: JsonObject = {"execution_id": asking, "interrupt_id": ask.interrupt_id, "answer": answer}
            person = ask.kind not in CLIENT_KINDS
            await self._acknowledged(caller, "execution.answer", arguments, from_person=person)
        return {"resultType": "complete"}

    async def cancel(self, caller: Caller, task_id: str) -> JsonObject:
        """Ask the run to stop; an ended one stays unchanged."""
        await self._view(caller, task_id)
        await self._acknowledged(
            caller, "execution.cancel", {"execution_id": task_id, "reason": "cancelled by the MCP client"}
        )
        return {"resultType": "complete"}

    async def _acknowledged(
        self, caller: Caller, operation: str, arguments: JsonObject, *, from_person: bool = False
    ) -> None:
        try:
            await call_operation(self._gate, caller, operation, arguments, from_person=from_person)
        except PenstockError as error:
            if error.code not in _NOTHING_TO_DO:
                raise


def _answer(ask: ClientQuestion, given: ClientAnswer) -> JsonValue:
    """Return the answer to a question; None if it does not exist, so that the question stays open."""
    if given.kind != ask.answered_by:
        return None
    if ask.kind in CLIENT_KINDS:
        return given.result
    if given.action != "accept":
        return ask.refusal(given.action)
    # Agreeing to open a page is not an answer yet.
    return None if ask.kind == "url" else ask.answer(given.content)


def _result_of(view: ExecutionView) -> ExecutionResult:
    output: JsonValue = msgspec.to_builtins(view.output)
    return ExecutionResult(
        execution_id=view.execution_id,
        workflow_id=view.workflow_id,
        status=view.status,
        sequence=view.sequence,
        untrusted=view.untrusted,
        output=output,
        error=view.error,
    )

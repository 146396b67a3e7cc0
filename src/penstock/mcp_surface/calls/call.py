"""One call of a tool, a prompt or a resource: a run, and the questions that its client is asked meanwhile.

    await Call(context, caller, client, tool_list, tool, arguments, render).result()

Each request says what its client can do. The client can be asked at once over an open connection; or by a result that
says what is missing, which the client completes with another call; or it polls a task. A client that supports none of
these gets the id of the run and the names of the tools to continue with. The first answer counts, wherever it was
given. Nothing is remembered between two calls, and nothing is started twice. This module does not import the SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.mcp_surface.callers import Caller, ProtocolFault, call_operation, capabilities_missing, tasks_missing
from penstock.mcp_surface.content.blocks import DELTA_META, TOOL_META, marked, untrusted_meta
from penstock.mcp_surface.content.results import answer_result, error_result, execution_result, is_untrusted
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.client_questions import (
    CLIENT_KINDS,
    ClientQuestion,
    Kind,
    identity_of,
    input_requests,
)
from penstock.mcp_surface.questions.clients import ALREADY_ANSWERED, Client, ClientAnswer
from penstock.mcp_surface.questions.links import AnswerLinks
from penstock.mcp_surface.questions.signing import RequestState, request_digest
from penstock.mcp_surface.rates import is_rate_limited
from penstock.mcp_surface.tools.tool_list import Tool, ToolList
from penstock.mcp_surface.wire.codes import INTERNAL_ERROR, INVALID_PARAMS
from penstock.operations.catalogue.capability import Reply
from penstock.operations.executions.answers import answers_in
from penstock.operations.gate.context import intent_of
from penstock.operations.gate.pipeline import Gate
from penstock.operations.registries.session_runs import turn_of_run
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import HistoryPage
from penstock.operations.signed_texts import Signer

__all__ = ["Call", "CallContext", "Render"]

_LOGGER = logging.getLogger("penstock.mcp")
_UNFIT = ("ANSWER_INVALID", "VALUE_NOT_JSON")
_ENDED = ("completed", "failed", "cancelled")
_TASK_OPERATIONS = frozenset({"execution.status"})
_ANSWER_OPERATIONS = frozenset({"execution.answer", "execution.wait"})
_LEFT = "mcp-request-cancelled"
_LEFT_OPEN = {
    "decline": "The person declined, and the document has no answer for that: they did not answer, and it stays open.",
    "cancel": "The person did not answer; nothing was changed.",
}
# How often a person is asked again over an open connection when the answer does not fit.
_TRIES = 3
_CAPABILITIES: dict[str, frozenset[Kind]] = {
    "elicitation": frozenset({"form", "url"}),
    "sampling": frozenset({"sampling"}),
    "roots": frozenset({"roots"}),
}

Render: TypeAlias = Callable[[ExecutionResult], JsonObject]
"""Builds the result of a run that was not started by a tool."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """Dependencies that all calls share."""

    gate: Gate
    options: McpOptions
    signer: Signer[RequestState]
    links: AnswerLinks


@dataclass(frozen=True, slots=True)
class _Unfit:
    """Why an answer was not accepted; the question is still open."""

    message: str


_AnswerOutcome: TypeAlias = Literal["taken", "opened", "left"] | _Unfit


@dataclass(frozen=True, slots=True)
class Call:
    """One call by one client."""

    context: CallContext
    caller: Caller
    client: Client
    tool_list: ToolList
    tool: Tool
    arguments: JsonObject
    render: Render | None = None
    begun: list[str] = field(default_factory=list)
    """The id of the run that the call waits for, once it exists."""
    beside: JsonObject = field(default_factory=dict)
    """What the answer of the operation says beside the result of its run, such as the session of a message."""
    answered: list[object] = field(default_factory=list)
    """What the result was made from, once there is one: for pages that show it beside the text."""
    begun_late: list[Callable[[str], None]] = field(default_factory=list)
    """Called with the id of a run that started after the client had disconnected."""

    async def give_up(self, execution_id: str) -> None:
        """Cancel a run that nobody waits for any more; an ended one stays unchanged."""
        arguments: JsonObject = {"execution_id": execution_id, "reason": _LEFT}
        try:
            await call_operation(self.context.gate, self.caller, "execution.cancel", arguments)
        except PenstockError as error:
            _LOGGER.info("the caller left run %s, which continues: %s", execution_id, error.code)

    async def result(self) -> JsonObject:
        """Run the call and return its result in wire form."""
        self._refuse_unable()
        characters_max = self.context.options.result_characters
        try:
            if self.client.state is not None and self.tool.follows_execution:
                state = self._verified_state(self.client.state)
                return await self._settle(await self._resume(state), self.client.answers, state.interrupt_ids)
            value = await self._through_gate(self.tool.capability.name, self.arguments, first=True)
            if isinstance(value, ExecutionResult) and self.tool.follows_execution:
                own = {*type(value).__struct_fields__} - {*ExecutionResult.__struct_fields__}
                self.beside.update({name: getattr(value, name) for name in own})
                return await self._settle(value, self.client.answers)
        except PenstockError as error:
            if self.render is not None or is_rate_limited(error):
                raise
            if self.client.strict and error.code == "INVALID_ARGUMENTS":
                data: JsonObject = {"code": error.code, **error.details}
                raise ProtocolFault(INVALID_PARAMS, error.message, data, on_record=error.on_record) from None
            return error_result(error, self.tool_list, self.tool)
        self.answered[:] = [value]
        if isinstance(value, ExecutionResult):
            shown = execution_result(value, self.tool_list, characters_max, page=self._page(), asked_for=True)
            return {**shown, "isError": False}
        untrusted = is_untrusted(self.tool.capability.name, value)
        return answer_result(value, characters_max, self._page(), untrusted=untrusted)

    def _page(self) -> str | None:
        return self.context.options.answer_page(self.caller.address)

    def _refuse_unable(self) -> None:
        """Refuse a client that lacks a capability that the call needs, or that cannot poll a required task."""
        missing: JsonObject = {name: {} for name in self._required() if not _CAPABILITIES[name] & self.client.kinds}
        if missing:
            raise capabilities_missing(self.tool.name, missing)
        if self._task_mode() == "required" and not self._is_task():
            raise tasks_missing(self.tool.name)

    def _required(self) -> list[str]:
        """Return the capabilities that the client needs: those in the document, or else those that its nodes need."""
        metadata = self.tool.capability.metadata
        declared, models = metadata.get("requires"), metadata.get("client_models")
        if isinstance(declared, list):
            return [str(name) for name in declared if name in _CAPABILITIES]
        named = models if isinstance(models, list) else []
        alone = [model for model in named if not {model, "default"} & self.context.options.models]
        roots = ["roots"] if metadata.get("client_roots") is True else []
        return (["sampling"] if alone else []) + roots

    def _task_mode(self) -> JsonValue:
        return self.tool.capability.metadata.get("task", "auto")

    def _rendered(self, result: ExecutionResult, note: str | None = None) -> JsonObject:
        error = result.error
        if error is not None and error.code in self.context.options.protocol_faults:
            data = marked({"execution_id": result.execution_id}, untrusted=result.untrusted)
            raise ProtocolFault(INTERNAL_ERROR, error.message, data, on_record=True)
        if self.render is not None:
            return {"resultType": "complete", **self.render(result)}
        self.answered[:] = [result]
        characters_max = self.context.options.result_characters
        if not self.tool.starts_execution:
            # The tool is listed with the schema of the operation's answer, not with that of an output.
            session = self.beside.get("session_id")
            named = None if session is None else f"Session {session}: send it as session_id with the next message."
            said = "\n".join(part for part in (note, named) if part) or None
            shown = execution_result(
                result, self.tool_list, characters_max, page=self._page(), note=said, asked_for=True
            )
            structured = {**object_or_empty(shown.get("structuredContent")), **self.beside}
            return {**shown, "structuredContent": structured, "isError": False}
        return execution_result(result, self.tool_list, characters_max, page=self._page(), note=note)

    # --- the execution -------------------------------------------------------------------------------

    async def _through_gate(
        self, operation: str, arguments: JsonObject, *, first: bool = False, from_person: bool = False
    ) -> object:
        """Call an operation; refusals are raised. `first` marks the call that the client itself made."""
        return await call_operation(
            self.context.gate,
            self.caller,
            operation,
            arguments,
            idempotency_key=self.client.idempotency_key if first else None,
            intent=intent_of(self.client.said) if first and self.client.said else None,
            patience_seconds=self._patience_seconds(),
            observe=self._observer() if self._is_observed() else None,
            reads_along=self.client.report is not None,
            client_kinds=self._client_kinds() if first else (),
            from_person=from_person,
            after_leaving=self._report_late_start if first else None,
        )

    def _report_late_start(self, outcome: object) -> None:
        result = outcome.value if isinstance(outcome, Reply) else None
        if isinstance(result, ExecutionResult) and self.tool.follows_execution:
            for tell in self.begun_late:
                tell(result.execution_id)

    def _client_kinds(self) -> tuple[str, ...]:
        """Return the kinds of questions that can be delivered to the client and answered by it."""
        reached = self.client.completes or self.client.ask is not None or self._is_task()
        if not reached or not self.tool.follows_execution or not self._may_answer():
            return ()
        return tuple(sorted(self.client.kinds & CLIENT_KINDS))

    def _patience_seconds(self) -> float:
        if not self._is_task():
            return self.context.options.patience_seconds
        return 0.0 if self._task_mode() == "required" else limits.MCP_TASK_AFTER_SECONDS

    def _is_observed(self) -> bool:
        return self.tool.follows_execution or self.client.report is not None or self.client.log is not None

    def _observer(self) -> Callable[[JsonObject], Awaitable[None]]:
        count = 0

        async def observe(news: JsonObject) -> None:
            nonlocal count
            line, level = news.get("log"), news.get("level")
            if isinstance(line, dict):
                if self.client.log is not None and isinstance(level, int):
                    await self.client.log(level, line)
                return
            count += 1
            if self.tool.follows_execution:
                self.begun[:] = [str(news["execution_id"])]
            if self.client.report is not None and isinstance(news.get("text"), str):
                piece: JsonObject = {name: news[name] for name in ("node_id", "visit", "attempt", "offset", "text")}
                await self.client.report(float(count), str(news["text"]), {**untrusted_meta(news), DELTA_META: piece})
            elif self.client.report is not None:
                node, what = news.get("node_id"), news.get("message") or news.get("status") or "goes on"
                message = f"{node}: {what}" if node else str(what)
                tool: JsonObject = {TOOL_META: news["tool"]} if "tool" in news else {}
                await self.client.report(float(count), message, {**untrusted_meta(news), **tool})

        return observe

    def _is_task(self) -> bool:
        """Return whether a long call becomes a task: the client supports tasks, and may read the run."""
        return self.client.tasks and self.tool.follows_execution and self.tool_list.operations >= _TASK_OPERATIONS

    def _task(self, result: ExecutionResult) -> JsonObject:
        """Return the result if there is one already; else the id of the run, which becomes a task."""
        if result.status in _ENDED and self._task_mode() == "auto":
            return self._rendered(result)
        return {"resultType": "task", "taskId": result.execution_id}

    async def _wait_for(self, execution_id: str, **more: JsonValue) -> ExecutionResult:
        value = await self._through_gate("execution.wait", {"execution_id": execution_id, **more})
        assert isinstance(value, ExecutionResult)
        return value

    def _verified_state(self, text: str) -> RequestState:
        """Verify the request state that the client received with the questions that it answers now."""
        state = self.context.signer.verify(text, now_ms=self.context.gate.services.clock.now_ms())
        principal = self.caller.principal
        if state is None or (state.principal, state.tenant, state.digest) != (
            principal.id,
            principal.tenant,
            self._digest(),
        ):
            raise ProtocolFault(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        return state

    async def _resume(self, state: RequestState) -> ExecutionResult:
        """Return the current result of the run that asked the client; nothing is started a second time."""
        if self.tool.capability.name == "agent.message":
            self.beside.update(turn_of_run(state.execution_id))
        result = await self._wait_for(state.execution_id, wait_seconds=0)
        open_now = {identity_of(question) for question in result.questions}
        if not open_now & set(state.interrupt_ids) and await self._was_used(state):
            message = "The requestState was used: its questions are answered"
            raise ProtocolFault(INVALID_PARAMS, message, {"execution_id": state.execution_id, "status": result.status})
        return result if result.questions else await self._wait_for(state.execution_id)

    async def _was_used(self, state: RequestState) -> bool:
        """Return whether the caller has answered with this state before.

        Answers by others or by a page do not count.
        """
        by_client = set(state.interrupt_ids) - set(state.elsewhere)
        for child in sorted({identity.rpartition("/")[0] for identity in by_client}):
            asked: JsonObject = {
                "execution_id": child or state.execution_id,
                "after": 0 if child else state.sequence,
                "limit": limits.PAGE_LIMIT_MAX,
            }
            page = await self._through_gate("execution.history", asked)
            assert isinstance(page, HistoryPage)
            answered = {
                f"{child}/{name}" if child else name for name, by in answers_in(page) if by == self.caller.principal.id
            }
            if answered & by_client:
                return True
        return False

    # --- the questions -------------------------------------------------------------------------------

    async def _settle(
        self, result: ExecutionResult, answers: Mapping[str, ClientAnswer], asked_before: Collection[str] = ()
    ) -> JsonObject:
        """Apply the answers that came with the call, then return the run's result, task or question.

        An answer may come before its question, but an approval may not: nobody can approve what they have not been
        asked.
        """
        unfit: dict[str, str] = {}
        note, opened = None, False
        matched = [
            (ask, answers[ask.key])
            for ask in self._askable_questions(result)
            if ask.key in answers and (not ask.approval or ask.identity in asked_before)
        ]
        for ask, answer in matched:
            became = await self._submit_answer(result.execution_id, ask, answer)
            if isinstance(became, _Unfit):
                unfit[ask.key] = became.message
            note = _LEFT_OPEN[answer.action] if became == "left" else note
            opened = opened or became == "opened"
        if matched and len(unfit) < len(matched) and note is None:
            result = await self._after_answer(result, opened=opened)
        if note is not None:
            return self._rendered(await self._wait_for(result.execution_id), note)
        if self._is_task():
            asked = self._input_required(result, unfit) if self._task_mode() == "after_questions" else None
            return self._task(result) if asked is None else asked
        return await self._ask_person(result, unfit)

    async def _ask_person(self, result: ExecutionResult, unfit: Mapping[str, str]) -> JsonObject:
        """Ask the person at the client, if there is a question that the client can show; then return the result."""
        note, tries = None, 0
        while self.client.ask is not None and tries < _TRIES:
            ask = next(iter(self._askable_questions(result)), None)
            answers = await self.client.ask(_repeated_question(ask, note)) if ask is not None else None
            if ask is None or answers is None:
                break
            # The answer may have taken an hour, so check again that the caller is still allowed.
            caller = self.caller
            await self.context.gate.recheck(
                caller.principal, surface="mcp", request_id=caller.request_id, remote=caller.remote
            )
            became = await self._submit_answer(result.execution_id, ask, answers)
            if became == "left":
                return self._rendered(await self._wait_for(result.execution_id), _LEFT_OPEN[answers.action])
            if isinstance(became, _Unfit):
                note, tries = became.message, tries + 1
                continue
            note, before = None, result
            result = await self._after_answer(before, opened=became == "opened")
            if became == "opened":
                if _is_open(result, ask):
                    break
                await self._notify_settled(ask)
        asked = self._input_required(result, unfit)
        return self._rendered(result, note) if asked is None else asked

    async def _notify_settled(self, ask: ClientQuestion) -> None:
        if self.client.settled is not None:
            await self.client.settled(ask)

    def _askable_questions(self, result: ExecutionResult) -> list[ClientQuestion]:
        """Return the questions that this client can be asked."""
        if not self._may_answer():
            return []
        return self.context.links.askable(self.caller, result.execution_id, result.questions, self.client.kinds)

    def _may_answer(self) -> bool:
        return self.tool_list.operations >= _ANSWER_OPERATIONS

    async def _submit_answer(self, execution_id: str, ask: ClientQuestion, answers: ClientAnswer) -> _AnswerOutcome:
        """Answer a question; if somebody else was faster, their answer counts."""
        if answers.kind != ask.answered_by:
            return _Unfit(f"this is answered with {ask.answered_by}")
        if answers.action == "accept" and ask.kind == "url":
            return "opened"
        answer: JsonValue
        if ask.kind in CLIENT_KINDS:
            answer = answers.result
        elif answers.action == "accept":
            answer = ask.answer(answers.content)
        else:
            refusal = ask.refusal(answers.action)
            if refusal is None:
                return "left"
            answer = refusal
        asking = ask.execution_id or execution_id
        arguments: JsonObject = {"execution_id": asking, "interrupt_id": ask.interrupt_id, "answer": answer}
        try:
            await self._through_gate("execution.answer", arguments, from_person=ask.kind not in CLIENT_KINDS)
        except PenstockError as error:
            if error.code in _UNFIT:
                return _Unfit(error.message)
            if error.code not in ALREADY_ANSWERED:
                raise
        return "taken"

    async def _after_answer(self, before: ExecutionResult, *, opened: bool) -> ExecutionResult:
        """Return the run after an answer.

        If a page was opened, wait until it has answered or the patience is over.
        """
        result = await self._wait_for(before.execution_id)
        if opened and result.sequence == before.sequence:
            result = await self._wait_for(before.execution_id, after_sequence=before.sequence)
        return result

    def _input_required(self, result: ExecutionResult, unfit: Mapping[str, str]) -> JsonObject | None:
        """Return the questions of a run, for a client that answers by calling again.

        None if it cannot be asked.
        """
        asks = self._askable_questions(result) if self.client.completes else []
        if not asks:
            return None
        state = RequestState(
            principal=self.caller.principal.id,
            tenant=self.caller.principal.tenant,
            digest=self._digest(),
            execution_id=result.execution_id,
            interrupt_ids=tuple(ask.identity for ask in asks),
            until_ms=self.context.gate.services.clock.now_ms() + limits.MCP_QUESTION_SECONDS_MAX * 1000,
            elsewhere=tuple(ask.identity for ask in asks if ask.kind == "url"),
            sequence=result.sequence,
        )
        return {
            "resultType": "input_required",
            "inputRequests": input_requests(_repeated_question(ask, unfit.get(ask.key)) for ask in asks),
            "requestState": self.context.signer.sign(state),
        }

    def _digest(self) -> str:
        return request_digest(self.tool.capability.name, self.arguments)


def _repeated_question(ask: ClientQuestion, note: str | None) -> ClientQuestion:
    """Return the question with the reason why it is asked again."""
    return ask if note is None else replace(ask, message=f"{note}\n\n{ask.message}")


def _is_open(result: ExecutionResult, ask: ClientQuestion) -> bool:
    return any(identity_of(question) == ask.identity for question in result.questions)

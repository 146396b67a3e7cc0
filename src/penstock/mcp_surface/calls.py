"""Calls of tools: through the gate, with the person at the other end where an execution asks for one.

What a client can do is known for each request: hear of progress, be asked at once (a form over an open connection), or
be asked by an answer that says what is missing, which it completes with another call. A client that can do none of it
gets a handle and the names of the tools to go on with. Nothing is remembered between two calls.

Above it: `server` translates from and to the SDK. Below it: the gate, `results`, `questions`, `seals`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.book import CATALOGUE, Tool, ToolBook
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions import Form, form_of, input_requests
from penstock.mcp_surface.results import answer_result, error_result, execution_result
from penstock.mcp_surface.seals import Seal, SealedState, request_digest
from penstock.mcp_surface.tools import ToolShelf
from penstock.mcp_surface.toolsets import described, found_tools, inner_call
from penstock.operations.attending import ExecutionResult
from penstock.operations.capability import EventStream
from penstock.operations.context import Credentials, Principal, Request
from penstock.operations.pipeline import Gate, RefusedCall

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "PROTOCOL_ERROR",
    "TASKS_EXTENSION",
    "Caller",
    "Client",
    "Filled",
    "ProtocolFault",
    "ToolCalls",
    "ask_gate",
    "tasks_missing",
]

_LOGGER = logging.getLogger("penstock.mcp")
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MISSING_CAPABILITY = -32021
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
PROTOCOL_ERROR = "PROTOCOL_ERROR"
"""An execution that fails with this code is an error of the protocol, not a result."""
_ANSWERED = ("ALREADY_ANSWERED", "NO_OPEN_QUESTION")
_ENDED = ("completed", "failed", "cancelled")
_TASK_OPERATIONS = frozenset({"execution.status"})
_LEFT = "mcp-request-cancelled"
_DECLINED = "The person did not answer; nothing was changed."

Action: TypeAlias = Literal["accept", "decline", "cancel"]


class ProtocolFault(Exception):
    """A fault of the protocol: an error of JSON-RPC, not a result."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls."""

    principal: Principal
    credentials: Credentials
    request_id: str
    remote: str | None = None
    toolset: str | None = None
    """The tools that their address asks for; None for those that the settings say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What became of a form."""

    action: Action
    content: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the client can do on this request."""

    report: Callable[[float, str], Awaitable[None]] | None = None
    """Tell it how far the call is."""
    ask: Callable[[Form], Awaitable[Filled | None]] | None = None
    """Ask the person now; None comes back when that was not possible."""
    tasks: bool = False
    """Whether it comes back for what takes longer."""
    completes: bool = False
    """Whether it answers questions by calling again."""
    filled: Mapping[str, Filled] = field(default_factory=dict)
    state: str | None = None
    """With `filled`: what it was given with the questions that it answers now."""
    idempotency_key: str | None = None


async def ask_gate(gate: Gate, caller: Caller, operation: str, arguments: JsonObject, **more: Any) -> object:
    """What an operation answers to a caller; raises what it refuses with."""
    request = Request(
        operation=operation,
        arguments=arguments,
        credentials=caller.credentials,
        surface="mcp",
        request_id=caller.request_id,
        trusted=False,
        remote=caller.remote,
        **more,
    )
    outcome = await gate.call(request)
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    if isinstance(outcome.reply, EventStream):
        raise ProtocolFault(INVALID_PARAMS, "this answers with a stream, which tools cannot")
    return outcome.reply.value


class ToolCalls:
    """Calls tools for everybody."""

    def __init__(self, gate: Gate, shelf: ToolShelf, options: McpOptions) -> None:
        self._gate = gate
        self._shelf = shelf
        self._options = options
        self._seal = Seal(gate.services.pepper)
        self._giving_up: set[asyncio.Future[None]] = set()

    async def call(self, caller: Caller, name: str, arguments: JsonObject, client: Client) -> JsonObject:
        """The result of a call, in the words of the wire; `ProtocolFault` for one that is none."""
        book = await self._shelf.of(caller.principal, caller.toolset)
        tool = book.find(name)
        if tool is None:
            raise ProtocolFault(INVALID_PARAMS, f"Unknown tool: {name[:200]}")
        if tool.capability.populator == CATALOGUE:
            try:
                looked_up = _looked_up(tool, book, arguments)
            except PenstockError as error:
                return error_result(error, book, tool)
            if not isinstance(looked_up, tuple):
                return answer_result(looked_up, self._options.result_characters)
            tool, arguments = looked_up
        return await self._run(_Call(self._gate, self._seal, self._options, caller, client, book, tool, arguments))

    async def _run(self, call: _Call) -> JsonObject:
        try:
            return await call.result()
        except asyncio.CancelledError:
            self._left(call)
            raise

    def _left(self, call: _Call) -> None:
        """The client hung up before it was answered; until then the execution is its own, unless the server stops."""
        if not call.begun or self._options.on_disconnect == "keep" or self._gate.services.open_streams.ending:
            return
        ending = asyncio.ensure_future(call.give_up(call.begun[-1]))
        self._giving_up.add(ending)
        ending.add_done_callback(self._giving_up.discard)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of one tool."""

    gate: Gate
    seal: Seal
    options: McpOptions
    caller: Caller
    client: Client
    book: ToolBook
    tool: Tool
    arguments: JsonObject
    begun: list[str] = field(default_factory=list)
    """The execution that the call waits with, once there is one."""

    async def give_up(self, execution_id: str) -> None:
        """Stop an execution that nobody waits for any more; what has ended stays as it is."""
        arguments: JsonObject = {"execution_id": execution_id, "reason": _LEFT}
        try:
            await ask_gate(self.gate, self.caller, "execution.cancel", arguments)
        except PenstockError as error:
            _LOGGER.info("the execution %s was left by its caller and goes on: %s", execution_id, error.code)

    async def result(self) -> JsonObject:
        self._refuse_unable()
        try:
            if self.client.state is not None and self.tool.starts_execution:
                return await self._completed(self.client.state)
            value = await self._through_gate(self.tool.capability.name, self.arguments, first=True)
            if isinstance(value, ExecutionResult) and self.tool.starts_execution:
                return await self._settled(value)
        except PenstockError as error:
            return error_result(error, self.book, self.tool)
        if isinstance(value, ExecutionResult):
            return {**execution_result(value, self.book, self.options.result_characters), "isError": False}
        return answer_result(value, self.options.result_characters)

    def _refuse_unable(self) -> None:
        """Refuse a client that could not come back for the task."""
        if self._task_mode() == "required" and not self._is_task():
            raise tasks_missing(self.tool.name)

    def _task_mode(self) -> JsonValue:
        return self.tool.capability.metadata.get("task", "auto")

    async def _settled(self, result: ExecutionResult) -> JsonObject:
        """The result, the task or the question that an execution is now."""
        if not self._is_task():
            return await self._with_person(result)
        asked = self._input_required(result) if self._task_mode() == "after_questions" else None
        return await self._task(result) if asked is None else asked

    def _shown(self, result: ExecutionResult, note: str | None = None) -> JsonObject:
        error = result.error
        if error is not None and error.code == PROTOCOL_ERROR:
            raise ProtocolFault(INTERNAL_ERROR, error.message, {"execution_id": result.execution_id})
        return execution_result(result, self.book, self.options.result_characters, note=note)

    async def _through_gate(self, operation: str, arguments: JsonObject, *, first: bool = False) -> object:
        """What an operation answers; raises what it refuses with. `first` is the call that the client made."""
        return await ask_gate(
            self.gate,
            self.caller,
            operation,
            arguments,
            idempotency_key=self.client.idempotency_key if first else None,
            patience_seconds=self._patience_seconds(),
            observe=self._observer() if self.tool.starts_execution or self.client.report is not None else None,
        )

    def _patience_seconds(self) -> float:
        if not self._is_task():
            return self.options.patience_seconds
        return 0.0 if self._task_mode() == "required" else limits.MCP_TASK_AFTER_SECONDS

    def _observer(self) -> Callable[[JsonObject], Awaitable[None]]:
        count = 0

        async def observe(news: JsonObject) -> None:
            nonlocal count
            count += 1
            if self.tool.starts_execution:
                self.begun[:] = [str(news["execution_id"])]
            if self.client.report is not None:
                node, what = news.get("node_id"), news.get("message") or news.get("status") or "goes on"
                await self.client.report(float(count), f"{node}: {what}" if node else str(what))

        return observe

    def _is_task(self) -> bool:
        """Whether what takes longer becomes a task: the client can, and may look after it."""
        return self.client.tasks and self.tool.starts_execution and self.book.operations >= _TASK_OPERATIONS

    async def _task(self, result: ExecutionResult) -> JsonObject:
        """The result if there is one already; else only where it will be, which the surface makes a task of."""
        if result.status in _ENDED and self._task_mode() == "auto":
            return self._shown(result)
        return {"resultType": "task", "taskId": result.execution_id}

    async def _waited(self, execution_id: str, **more: JsonValue) -> ExecutionResult:
        value = await self._through_gate("execution.wait", {"execution_id": execution_id, **more})
        assert isinstance(value, ExecutionResult)
        return value

    async def _with_person(self, result: ExecutionResult) -> JsonObject:
        """The result; the person is asked first if the execution asks and the client can."""
        note: str | None = None
        while result.questions and self._may_answer() and self.client.ask is not None:
            form = next(iter(self._forms(result)), None)
            filled = await self.client.ask(form) if form is not None else None
            if form is None or filled is None:
                break
            if filled.action != "accept":
                note = _DECLINED
                break
            await self._answer(result.execution_id, form, filled)
            result = await self._waited(result.execution_id)
        asked = self._input_required(result) if note is None else None
        if asked is not None:
            return asked
        return self._shown(result, note)

    def _forms(self, result: ExecutionResult) -> list[Form]:
        """The questions that this client can be asked."""
        forms = (form_of(question) for question in result.questions)
        return [form for form in forms if form is not None]

    def _may_answer(self) -> bool:
        return {"execution.answer", "execution.wait"} <= self.book.operations

    async def _answer(self, execution_id: str, form: Form, filled: Filled) -> None:
        arguments: JsonObject = {
            "execution_id": execution_id,
            "interrupt_id": form.interrupt_id,
            "answer": form.answer(filled.content),
        }
        await self._through_gate("execution.answer", arguments)

    def _input_required(self, result: ExecutionResult) -> JsonObject | None:
        """The questions of an execution, for a client that answers by calling again; None if no form can ask them."""
        forms = self._forms(result) if self.client.completes and self._may_answer() else []
        if not forms:
            return None
        state = SealedState(
            principal=self.caller.principal.id,
            tenant=self.caller.principal.tenant,
            digest=self._digest(),
            execution_id=result.execution_id,
            interrupt_ids=tuple(form.interrupt_id for form in forms),
            until_ms=self.gate.services.clock.now_ms() + limits.MCP_QUESTION_SECONDS_MAX * 1000,
        )
        return {
            "resultType": "input_required",
            "inputRequests": input_requests(forms),
            "requestState": self.seal.close(state),
        }

    def _digest(self) -> str:
        return request_digest(self.tool.capability.name, self.arguments)

    async def _completed(self, text: str) -> JsonObject:
        """Go on with the execution that the client was asked about; nothing is started a second time."""
        state = self.seal.open(text, now_ms=self.gate.services.clock.now_ms())
        principal = self.caller.principal
        if state is None or (state.principal, state.tenant, state.digest) != (
            principal.id,
            principal.tenant,
            self._digest(),
        ):
            raise ProtocolFault(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        result = await self._waited(state.execution_id, wait_seconds=0)
        open_now = {form.interrupt_id: form for form in self._forms(result)}
        if not any(interrupt_id in open_now for interrupt_id in state.interrupt_ids):
            told = "The requestState was used: its questions are answered"
            raise ProtocolFault(INVALID_PARAMS, told, {"execution_id": state.execution_id, "status": result.status})
        for interrupt_id in state.interrupt_ids:
            form = open_now.get(interrupt_id)
            filled = self.client.filled.get(form.key) if form is not None else None
            if form is None or filled is None:
                continue
            if filled.action != "accept":
                return self._shown(result, _DECLINED)
            await self._answer_once(state.execution_id, form, filled)
        plain = replace(self, client=replace(self.client, state=None, filled={}))
        return await plain._settled(await self._waited(state.execution_id))

    async def _answer_once(self, execution_id: str, form: Form, filled: Filled) -> None:
        """Answer; if somebody else was faster, that is what counts."""
        try:
            await self._answer(execution_id, form, filled)
        except PenstockError as error:
            if error.code not in _ANSWERED:
                raise


def _looked_up(tool: Tool, book: ToolBook, arguments: JsonObject) -> JsonObject | tuple[Tool, JsonObject]:
    """What is known of tools that are not listed, or the one that is to be called and its arguments."""
    match tool.capability.name:
        case "tools.search":
            return found_tools(book, arguments)
        case "tools.describe":
            return described(book, arguments)
        case _:
            return inner_call(book, arguments)


def tasks_missing(what: str) -> ProtocolFault:
    """Only clients that take tasks can have this."""
    needed: JsonObject = {"extensions": {TASKS_EXTENSION: {}}}
    told = f"{what} needs a client with the extension {TASKS_EXTENSION}"
    return ProtocolFault(MISSING_CAPABILITY, told, {"requiredCapabilities": needed})

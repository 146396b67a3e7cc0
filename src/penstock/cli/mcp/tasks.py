"""The client side of the tasks extension: it polls a call that became a task, and asks the questions of the task.

Above it: `penstock mcp call`. Below it: the SDK's client, which passes on what a server answers instead of a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from penstock.base.json import JsonObject

__all__ = ["TASKS_EXTENSION", "TaskCancelled", "TaskFollower", "TaskState", "TaskWaits", "task_state"]

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
_T = TypeVar("_T")
_POLL_MS = 1_000
_POLL_MS_MIN = 50
_AGAIN_SECONDS = (0.1, 0.5, 1.0, 2.0)
_INPUT_REQUEST: TypeAdapter[types.InputRequest] = TypeAdapter(types.InputRequest)


class _TaskFields(types.Result):
    task_id: str
    status: str
    status_message: str | None = None
    poll_interval_ms: int | None = None


class _Created(_TaskFields):
    result_type: Literal["task"] = "task"


class _Read(_TaskFields):
    input_requests: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _TaskParams(types.RequestParams):
    task_id: str


class _AnswerParams(_TaskParams):
    input_responses: dict[str, Any]


class _Get(types.Request[_TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _Update(types.Request[_AnswerParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _AnswerParams


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """The state of a task."""

    task_id: str
    status: str
    message: str | None = None
    asks_nothing: bool = False
    """Whether the task has no question that this client could answer."""

    @property
    def waits_elsewhere(self) -> bool:
        """Whether it waits for somebody who cannot be asked here. Our servers say for whom in the status message."""
        return self.status == "input_required" and self.asks_nothing

    @property
    def asked(self) -> str | None:
        """What the task waits for, in the words of our servers."""
        return (self.message or "").partition(": ")[2] or None


class TaskWaits(Exception):
    """Raised when a task waits for a person and nobody is here to ask."""

    def __init__(self, state: TaskState, questions: JsonObject) -> None:
        super().__init__(state)
        self.state = state
        self.questions = questions


class TaskCancelled(Exception):
    """Raised when somebody cancelled the task."""

    def __init__(self, state: TaskState) -> None:
        super().__init__(state)
        self.state = state


class TaskFollower(ClientExtension):
    """Follows tasks. `watch` is called with every change; `asks` says whether a person can be asked.

    `ask_directly` asks the person for what no client of MCP may answer, an approval above all.
    """

    identifier = TASKS_EXTENSION

    def __init__(
        self,
        watch: Callable[[TaskState], None],
        *,
        asks: bool,
        ask_directly: Callable[[TaskState], Awaitable[None]] | None = None,
    ) -> None:
        self._watch = watch
        self._asks = asks
        self._ask_directly = ask_directly
        self._asked_directly: set[TaskState] = set()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The answer by which a server turns a call into a task."""
        return (ResultClaim(result_type="task", model=_Created, resolve=self._follow),)

    async def _follow(self, created: _Created, context: ClaimContext) -> types.CallToolResult:
        session, seen = context.session, _state(created)
        self._watch(seen)
        latest: _TaskFields = created
        answered: set[str] = set()
        while True:
            if seen.status == "working" or seen.waits_elsewhere or answered:
                await asyncio.sleep(_pause_seconds(latest))
            latest = read = await _read(session, seen.task_id)
            state = _state(read)
            if state != seen:
                self._watch(state)
            seen = state
            match state.status:
                case "completed":
                    return types.CallToolResult.model_validate(read.result or {"content": []})
                case "failed":
                    error = types.ErrorData.model_validate(read.error or {"code": 0, "message": "the task failed"})
                    raise MCPError.from_error_data(error)
                case "cancelled":
                    raise TaskCancelled(state)
                case "input_required":
                    # An answer may take a while to arrive, above all from a page; nothing is asked twice.
                    asked = {key: item for key, item in (read.input_requests or {}).items() if key not in answered}
                    if asked or state.waits_elsewhere:
                        answered |= await self._answer(session, state, asked, _pause_seconds(read))
                case _:
                    pass

    async def _answer(
        self, session: ClientSession, state: TaskState, questions: dict[str, Any], pause_seconds: float
    ) -> set[str]:
        """Ask the person, unless somebody else answers first. Returns the keys of the questions answered here."""
        if not self._asks:
            raise TaskWaits(state, questions)
        if not questions:
            # Somebody else may answer at any moment, so a refusal here is no reason to stop waiting.
            if self._ask_directly is not None and state not in self._asked_directly:
                self._asked_directly.add(state)
                await _unless_answered(session, state, questions, pause_seconds, self._ask_directly(state))
            return set()
        answers = await _unless_answered(session, state, questions, pause_seconds, _ask_all(session, state, questions))
        if answers is None:
            return set()
        params = _AnswerParams(task_id=state.task_id, input_responses=answers)
        await session.send_request(_Update(params=params), types.EmptyResult)
        declined = {key for key, answer in answers.items() if answer.get("action") == "decline"}
        if declined & ((await _read(session, state.task_id)).input_requests or {}).keys():
            # Still open after "decline": the workflow has no way to refuse. Somebody else may answer.
            raise TaskWaits(state, questions)
        return set(answers)


async def _unless_answered(
    session: ClientSession,
    state: TaskState,
    questions: dict[str, Any],
    pause_seconds: float,
    asks: Awaitable[_T],
) -> _T | None:
    """Ask the person, and stop asking when somebody else has answered; None in that case."""
    asking = asyncio.ensure_future(asks)
    try:
        while not asking.done():
            await asyncio.wait({asking}, timeout=pause_seconds)
            if not asking.done():
                now = await _read(session, state.task_id)
                if now.status != "input_required" or not questions.keys() <= (now.input_requests or {}).keys():
                    return None
        return asking.result()
    finally:
        asking.cancel()
        await asyncio.wait({asking})


async def _ask_all(session: ClientSession, state: TaskState, questions: dict[str, Any]) -> dict[str, Any]:
    """The answers of the person."""
    answers: dict[str, Any] = {}
    for key, question in questions.items():
        request = _INPUT_REQUEST.validate_python(question)
        answer = await session.dispatch_input_request(ClientRequestContext(session=session, request_id=key), request)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        if isinstance(answer, types.ElicitResult) and answer.action == "cancel":
            # The person here does not answer; somebody else may.
            raise TaskWaits(state, questions)
        answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return answers


async def task_state(session: ClientSession, task_id: str) -> TaskState:
    """The state of a task now."""
    return _state(await _read(session, task_id))


async def _read(session: ClientSession, task_id: str) -> _Read:
    """Read a task; after a lost connection, read it again."""
    for pause in _AGAIN_SECONDS:
        try:
            return await session.send_request(_Get(params=_TaskParams(task_id=task_id)), _Read)
        except MCPError as error:
            if error.error.code != types.CONNECTION_CLOSED:
                raise
        await asyncio.sleep(pause)
    return await session.send_request(_Get(params=_TaskParams(task_id=task_id)), _Read)


def _pause_seconds(task: _TaskFields) -> float:
    return max(task.poll_interval_ms or _POLL_MS, _POLL_MS_MIN) / 1000


def _state(found: _TaskFields) -> TaskState:
    asks_nothing = isinstance(found, _Read) and found.status == "input_required" and not found.input_requests
    return TaskState(
        task_id=found.task_id, status=found.status, message=found.status_message, asks_nothing=asks_nothing
    )

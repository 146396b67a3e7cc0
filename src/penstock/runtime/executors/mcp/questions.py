"""Questions that MCP servers ask while one of their tools runs, and the calls that wait for the answers.

Servers of the newest protocol era answer a call with questions, and are called again with the answers. Nothing stays
open, and the state that they want to get back is stored with the run. Older servers ask over the open connection: the
call keeps waiting there (it is parked) while the run waits for a person. If the connection or this process ends before
that, the tool is called again, and the same question is answered at once with the person's answer.

Above it: `executor`. Below it: the types of the SDK. It opens no connection.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
)
from pydantic import BaseModel

from penstock.base import limits
from penstock.base.encoding import SafeEncoder, encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.runtime.activities.performing import ActivityAsks, ActivityError, ActivityOutcome
from penstock.runtime.executors.mcp.lending import (
    LENT_ROOTS,
    LENT_SAMPLING,
    LentToCall,
    existing_folders,
    listed_roots,
)
from penstock.runtime.executors.outbound.error_text import truncated

__all__ = [
    "CALL",
    "ElicitationRouter",
    "GivenAnswer",
    "LiveCall",
    "LiveQuestion",
    "ResumeState",
    "answers_from_lent",
    "next_question",
    "parked_question",
    "resumed",
]

_encode = SafeEncoder(order="sorted").encode
# A question that sends a person to a URL has no form: the person only confirms that it is done.
_DONE = "done"
_DONE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {_DONE: {"type": "boolean", "title": "Done there", "description": "False declines."}},
    "required": [_DONE],
}
# This extra field lets a person refuse a server's question. It can be ignored when filling in the form.
_ACTION = "action"
_REFUSALS = ("decline", "cancel")
_PLACE: JsonObject = {
    "type": "string",
    "enum": ["accept", *_REFUSALS],
    "description": "`decline` or `cancel` in place of an answer.",
    "x-refusal": True,
}

Params: TypeAlias = Any
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A person's answer to a question of a server. `digest` is the digest of the question."""

    digest: str
    answer: JsonValue

    def as_json(self) -> JsonObject:
        """The answer as it is stored with the run."""
        return {"digest": self.digest, "answer": self.answer}


@dataclass(eq=False, slots=True)
class LiveQuestion:
    """A question that arrived over an open connection."""

    params: Params
    reply: asyncio.Future[ElicitResult]

    def answer(self, answer: JsonValue) -> None:
        """Send the server its answer, if it still waits for one."""
        if not self.reply.done():
            self.reply.set_result(_result(self.params, answer))


@dataclass(eq=False, slots=True)
class LiveCall:
    """A call in progress in a session. `given` are earlier answers, in the order of their questions."""

    lent: LentToCall = field(default_factory=lambda: LentToCall(server=""))
    """What the server may use during the call."""
    given: deque[GivenAnswer] = field(default_factory=deque)
    answered: list[GivenAnswer] = field(default_factory=list)
    task: asyncio.Task[ActivityOutcome] | None = None
    question: LiveQuestion | None = None
    """The question that a person has to answer."""
    asking: int = 0
    """The number of questions that the server waits for."""
    asked_count: int = 0
    """The number of questions that the server has asked."""
    has_turn: bool = False
    taking_turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # of several answers at once, one waits for a turn
    failure: ActivityError | None = None
    """Why the call failed, if it has no outcome of its own."""
    spoken: Callable[[LoggingMessageNotificationParams], None] | None = None
    """Receives log messages that the server sends during the call."""
    has_left: bool = False
    """True if nobody waits for the call any more. The server may still be busy with it."""
    _asked: asyncio.Queue[LiveQuestion | None] = field(default_factory=asyncio.Queue)

    async def ask(self, params: Params) -> ElicitResult:
        """Answer a question of the server: with an earlier answer to the same question, else with a person's."""
        digest = _digest(params)
        if self.given and self.given[0].digest == digest:
            before = self.given.popleft()
            self.answered.append(before)
            return _result(params, before.answer)
        question = LiveQuestion(params, asyncio.get_running_loop().create_future())
        self._asked.put_nowait(question)
        return await question.reply

    def fail(self, failure: ActivityError) -> None:
        """End the call with a failure, whatever the server still sends."""
        if self.failure is None:
            self.failure = failure
            self._asked.put_nowait(None)

    def answer(self, answer: JsonValue) -> None:
        """Answer the open question."""
        if self.question is not None:
            self.answered.append(GivenAnswer(_digest(self.question.params), answer))
            self.question.answer(answer)
            self.question = None

    async def settled(self) -> ActivityOutcome | LiveQuestion:
        """Wait for the outcome of the call, or for its next question."""
        assert self.task is not None
        asked = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait((self.task, asked), return_when=asyncio.FIRST_COMPLETED)
            if self.failure is not None:
                return self.failure
            if self.task.done():
                return self.task.result()
            question = asked.result()
            assert question is not None  # otherwise there would be a failure
            self.question = question
            return question
        finally:
            asked.cancel()

    async def stop(self) -> None:
        """Abandon the call, and cancel it at the server if that is quick."""
        self.has_left = self.lent.has_ended = True
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait((self.task,), timeout=limits.FAREWELL_SECONDS_MAX)


CALL: ContextVar[LiveCall | None] = ContextVar("mcp_call", default=None)
"""The call for which messages are sent. Over HTTP, messages on a call's own stream carry this context."""


class ElicitationRouter:
    """The calls in progress in one session. It finds the call that a question belongs to.

    Over HTTP a question arrives on the stream of its call. Over a pipe nothing identifies the call: the question
    belongs to the only call without a question, or to the last one after the others have ended. The call that asks
    cannot end before it gets an answer. From the first such question on, calls take turns: one at a time continues,
    while others wait for their answers.
    """

    def __init__(self, on_flood: Callable[[], None] = lambda: None) -> None:
        self._on_flood = on_flood
        self._calls: set[LiveCall] = set()
        self._unclear: list[asyncio.Future[LiveCall | None]] = []
        self._takes_turns = False
        self.only_named = False
        """True if a question that does not name its call is refused, because the calls belong to different people."""
        self._turn = asyncio.Lock()
        self._is_haunted = False
        """True if a call was left without an answer: the server may still be busy with it, and speak of it."""

    @asynccontextmanager
    async def at_work(self, call: LiveCall) -> AsyncIterator[None]:
        """Register a call for the time of the block."""
        await self._take_turn(call)
        self._calls.add(call)
        token = CALL.set(call)
        try:
            yield
        except BaseException as error:
            self._is_haunted = self._is_haunted or not _is_answer(error)
            raise
        finally:
            CALL.reset(token)
            self._calls.discard(call)
            self._leave_turn(call)
            self._sort()

    def has_call(self) -> bool:
        """Whether what the server asks now can belong to a call in progress."""
        return CALL.get() in self._calls if self.only_named else bool(self._calls)

    def calls_left(self) -> tuple[int, int]:
        """The number of calls in progress that somebody waits for, and the number that nobody waits for."""
        left = sum(call.has_left for call in self._calls)
        return len(self._calls) - left, left

    async def logged(self, params: LoggingMessageNotificationParams) -> None:
        """Hand a log message of the server to the call that it belongs to; if that is not certain, to none."""
        call = self.speaker()
        if call is not None and call.spoken is not None:
            call.spoken(params)

    def speaker(self) -> LiveCall | None:
        """Return the call that a notification of the server belongs to; None if it belongs to none or is unclear."""
        named = CALL.get()
        if named is not None:
            return named if named in self._calls else None
        if self.only_named or self._is_haunted or len(self._calls) != 1:
            return None
        return next(iter(self._calls))

    async def asked(self, context: object, params: Params) -> ElicitResult | ErrorData:
        """Handle a question of the server, for a person."""
        return await self._answered(lambda call: call.ask(params))

    async def sampled(self, context: object, params: Params) -> CreateMessageResult | ErrorData:
        """Handle a request of the server for a lent model."""
        return await self._answered(lambda call: call.lent.sample(params))

    async def _answered(self, answer_for: Callable[[LiveCall], Awaitable[_Answer]]) -> _Answer | ErrorData:
        named = CALL.get()
        if self.only_named and named not in self._calls:
            return ErrorData(code=INVALID_REQUEST, message="the question does not say which call it belongs to")
        self._takes_turns = self._takes_turns or named not in self._calls
        if len(self._unclear) >= limits.MCP_QUESTIONS_PER_CALL_MAX:
            return self._flooded(tuple(self._calls))
        call = named if named in self._calls else await self._only()
        if call is not None and call.asked_count >= limits.MCP_QUESTIONS_PER_CALL_MAX:
            return self._flooded((call,))
        if call is None:
            message = "the question belongs to no tool call in progress, or to one of several"
            return ErrorData(code=INVALID_REQUEST, message=message)
        call.asking += 1
        call.asked_count += 1
        self._leave_turn(call)
        self._sort()
        try:
            answer = await answer_for(call)
            await self._take_turn(call)  # the call continues with the answer
            return answer
        finally:
            call.asking -= 1

    def _flooded(self, calls: tuple[LiveCall, ...]) -> ErrorData:
        """Fail the calls of a server that asks too many questions."""
        message = f"the server asks more than {limits.MCP_QUESTIONS_PER_CALL_MAX} questions in one call"
        for call in calls:
            call.fail(ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False))
        self._on_flood()
        return ErrorData(code=INVALID_REQUEST, message=message)

    async def _take_turn(self, call: LiveCall) -> None:
        async with call.taking_turn:
            if self._takes_turns and not call.has_turn:
                await self._turn.acquire()
                call.has_turn = True

    def _leave_turn(self, call: LiveCall) -> None:
        if call.has_turn:
            call.has_turn = False
            self._turn.release()

    async def _only(self) -> LiveCall | None:
        assigned: asyncio.Future[LiveCall | None] = asyncio.get_running_loop().create_future()
        self._unclear.append(assigned)
        self._sort()
        try:
            return await assigned
        finally:
            self._unclear.remove(assigned)

    def _sort(self) -> None:
        """Assign the questions to calls, as far as that is unambiguous by now."""
        # A call that waits for an answer does not ask again, unless it is the only call.
        calls = [call for call in self._calls if not call.asking] or list(self._calls)
        open_now = [assigned for assigned in self._unclear if not assigned.done()]
        if len(calls) == 1:
            for assigned in open_now[:1]:
                assigned.set_result(calls[0])
        elif len(open_now) >= len(calls):  # as many questions as calls: they can never be told apart
            for assigned in open_now:
                assigned.set_result(None)


def _is_answer(error: BaseException) -> bool:
    """True if a call ended with an error because the server answered with one."""
    return isinstance(error, MCPError) and error.code != REQUEST_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeState:
    """The state stored with a run whose activity asked a question, and the answer to that question."""

    parked: str | None = None
    answered: tuple[GivenAnswer, ...] = ()
    state: str | None = None
    requests: Mapping[str, JsonObject] = field(default_factory=dict)
    """The questions of a server of the newest era, by the server's keys."""
    responses: Mapping[str, JsonValue] = field(default_factory=dict)
    """The answers so far: of people as they gave them, of what is lent in the format of the protocol."""
    sampled: tuple[JsonObject, ...] = ()
    """The requests for a lent model so far."""

    def open(self) -> str | None:
        """The key of the next unanswered question."""
        return next((key for key in self.requests if key not in self.responses), None)

    def input_responses(self) -> dict[str, Any] | None:
        """The answers in the format of the protocol."""
        if not self.requests:
            return None
        return {key: _response(request, self.responses[key]) for key, request in self.requests.items()}


def _response(request: JsonObject, given: JsonValue) -> Any:
    match request.get("method"):
        case method if method == LENT_SAMPLING:
            return CreateMessageResult.model_validate(given)
        case method if method == LENT_ROOTS:
            return ListRootsResult.model_validate(given)
        case _:
            return _result(ElicitRequest.model_validate(request).params, given)


def resumed(resume: JsonValue, answer: JsonValue) -> ResumeState:
    """The state that an attempt continues with; empty for a first attempt."""
    left = resume if isinstance(resume, dict) else {}
    requests, responses = _objects(left.get("requests")), dict(_object(left.get("responses")))
    if isinstance(left.get("key"), str):
        responses[str(left["key"])] = answer
    listed = left.get("answered")
    before = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    answered = [GivenAnswer(str(item.get("digest")), item.get("answer")) for item in before]
    if isinstance(left.get("asked"), str):
        answered.append(GivenAnswer(str(left["asked"]), answer))
    parked, state, sampled = left.get("parked"), left.get("state"), left.get("sampled")
    return ResumeState(
        parked=parked if isinstance(parked, str) else None,
        answered=tuple(answered),
        state=state if isinstance(state, str) else None,
        requests=requests,
        responses=responses,
        sampled=tuple(item for item in sampled if isinstance(item, dict)) if isinstance(sampled, list) else (),
    )


async def answers_from_lent(
    who: str, lent: LentToCall, requests: Mapping[str, JsonObject]
) -> dict[str, JsonValue] | ActivityError:
    """The answers to those of a server's requests that what it is lent answers; the others are for a person.

    A server of the newest era cannot be answered with an error: one whose request is refused has failed.
    """
    if len(requests) > limits.MCP_QUESTIONS_PER_CALL_MAX:
        message = f"{who} asks more than {limits.MCP_QUESTIONS_PER_CALL_MAX} questions at once"
        return ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False)
    answers: dict[str, JsonValue] = {}
    for key, request in requests.items():
        method = request.get("method")
        if method == LENT_ROOTS and lent.lending.folders:
            answer: BaseModel | ErrorData = listed_roots(await existing_folders(lent.lending))
        elif method == LENT_SAMPLING and lent.lending.sampling is not None:
            answer = await lent.sample(CreateMessageRequest.model_validate(request).params)
        else:
            continue
        refused = lent.refusal
        if isinstance(answer, ErrorData):
            message = answer.message if refused is None else refused.message
            code = "SAMPLING_REFUSED" if refused is None else refused.code
            retryable = refused is not None and refused.retryable
            return ActivityError(truncated(f"{who} asks for a model: {message}"), code, retryable=retryable)
        answers[key] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return answers


def next_question(who: str, kept: ResumeState) -> ActivityAsks | ActivityError:
    """The next question of a server that is called again with the answers."""
    key = kept.open()
    assert key is not None
    request = kept.requests[key]
    if request.get("method") != "elicitation/create":
        message = f"{who} asks for {request.get('method')}, which we do not offer"
        return ActivityError(message, "MCP_PROTOCOL_ERROR", retryable=False)
    resume: JsonObject = {
        "key": key,
        "state": kept.state,
        "requests": dict(kept.requests),
        "responses": dict(kept.responses),
        **_sampled(kept.sampled),
    }
    return _asks(who, ElicitRequest.model_validate(request).params, resume)


def parked_question(who: str, call: LiveCall, question: LiveQuestion, parked: str) -> ActivityAsks | ActivityError:
    """The question of a call that waits for the answer on its connection."""
    resume: JsonObject = {
        "parked": parked,
        "asked": _digest(question.params),
        "answered": [item.as_json() for item in call.answered],
        **_sampled(call.lent.used),
    }
    return _asks(who, question.params, resume)


def _sampled(used: Sequence[JsonObject]) -> JsonObject:
    return {"sampled": list(used)} if used else {}


def _asks(who: str, params: Params, resume: JsonObject) -> ActivityAsks | ActivityError:
    # The reader must know that the words are those of somebody else's server, not ours.
    if isinstance(params, ElicitRequestURLParams):
        message = f"{who} asks: {params.message}\nOpen {params.url} and say when it is done."
        return ActivityAsks(truncated(message), _DONE_SCHEMA, resume)
    schema = _refusable(msgspec.to_builtins(params.requested_schema))
    if len(encode_bytes(schema)) > limits.MCP_FORM_BYTES_MAX:
        message = f"{who} asks with a form of more than {limits.MCP_FORM_BYTES_MAX} bytes"
        return ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False)
    problem = load_schema(schema)
    if isinstance(problem, SchemaProblem):
        message = f"{who} asks with a schema that cannot be used: {problem.message}"
        return ActivityError(message, "MCP_PROTOCOL_ERROR", retryable=False)
    return ActivityAsks(truncated(f"{who} asks: {params.message}"), schema, resume)


def _refusable(schema: JsonObject) -> JsonObject:
    """The schema of the answer: the server's own, extended by a refusal unless it already has a field of that name."""
    members = _object(schema.get("properties"))
    if _ACTION in members:
        return schema
    rest = {name: value for name, value in schema.items() if name != "required"}
    refused: JsonObject = {"properties": {_ACTION: {"enum": [*_REFUSALS]}}, "required": [_ACTION]}
    needed: JsonObject = {"required": schema.get("required", [])}
    return {**rest, "properties": {**members, _ACTION: _PLACE}, "if": refused, "else": needed}


def _result(params: Params, answer: JsonValue) -> ElicitResult:
    given = _object(answer)
    if isinstance(params, ElicitRequestURLParams):
        return ElicitResult(action="accept" if given.get(_DONE) is True else "decline")
    if _ACTION in _object(msgspec.to_builtins(params.requested_schema).get("properties")):
        return _accepted(given)
    if given.get(_ACTION) in _REFUSALS:
        return ElicitResult(action="decline" if given[_ACTION] == "decline" else "cancel")
    return _accepted({name: value for name, value in given.items() if name != _ACTION})


def _accepted(given: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=given)


def _digest(params: Params) -> str:
    shown = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta", "elicitation_id"})
    return hashlib.sha256(_encode(shown)).hexdigest()[:32]


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: JsonValue) -> dict[str, JsonObject]:
    return {name: item for name, item in _object(value).items() if isinstance(item, dict)}

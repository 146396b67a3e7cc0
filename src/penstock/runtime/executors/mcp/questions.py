"""What MCP servers ask while a tool of theirs runs, and the calls that wait for the answers.

Servers of the newest era answer a call with questions, and are called again with the answers: nothing stays open, and
what they gave us to bring along is kept with the run. Older servers ask over the open connection; the call goes on
waiting there (it is parked) while the run waits for a person. If the connection or this process does not live that
long, the tool is called again and the same question is answered at once with what the person said.

Above it: `executor`. Below it: the types of the SDK. It opens no connection.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from mcp_types import INVALID_REQUEST, ElicitRequest, ElicitRequestURLParams, ElicitResult, ErrorData

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.runtime.activities.performing import ActivityAsks, ActivityError, ActivityOutcome
from penstock.runtime.executors.outbound.error_text import truncated

__all__ = [
    "CALL",
    "ElicitationRouter",
    "GivenAnswer",
    "LiveCall",
    "LiveQuestion",
    "ResumeState",
    "next_question",
    "parked_question",
    "resumed",
]

_encode = msgspec.json.Encoder(order="sorted").encode
# A question that leads elsewhere has no form: whoever answers says whether it is done.
_DONE = "done"
_DONE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {_DONE: {"type": "boolean", "title": "Done there", "description": "False declines."}},
    "required": [_DONE],
}
# Beside what a server asks for there is a place to refuse it; who fills in a form need not see it.
_ACTION = "action"
_REFUSALS = ("decline", "cancel")
_PLACE: JsonObject = {
    "type": "string",
    "enum": ["accept", *_REFUSALS],
    "description": "`decline` or `cancel` in place of an answer.",
    "x-refusal": True,
}

Params: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What somebody answered to a question of a server; `digest` is of the question."""

    digest: str
    answer: JsonValue

    def as_json(self) -> JsonObject:
        """As it is kept with the run."""
        return {"digest": self.digest, "answer": self.answer}


@dataclass(eq=False, slots=True)
class LiveQuestion:
    """A question that came over an open connection."""

    params: Params
    reply: asyncio.Future[ElicitResult]

    def answer(self, answer: JsonValue) -> None:
        """Give the server its answer, if it still wants one."""
        if not self.reply.done():
            self.reply.set_result(_result(self.params, answer))


@dataclass(eq=False, slots=True)
class LiveCall:
    """A call that is under way in a session; `given` are answers from before, in the order of their questions."""

    given: deque[GivenAnswer] = field(default_factory=deque)
    answered: list[GivenAnswer] = field(default_factory=list)
    task: asyncio.Task[ActivityOutcome] | None = None
    question: LiveQuestion | None = None
    """The one that a person is to answer."""
    asking: int = 0
    """Questions that its server waits for."""
    asked_count: int = 0
    """Questions that its server has asked."""
    has_turn: bool = False
    failure: ActivityError | None = None
    """Why it has no outcome of its own any more."""
    has_left: bool = False
    """Whether nobody waits for it any more; its server may still be busy with it."""
    _asked: asyncio.Queue[LiveQuestion | None] = field(default_factory=asyncio.Queue)

    async def ask(self, params: Params) -> ElicitResult:
        """The answer to a question of the server: one from before if it is the same, else that of a person."""
        digest = _digest(params)
        if self.given and self.given[0].digest == digest:
            before = self.given.popleft()
            self.answered.append(before)
            return _result(params, before.answer)
        question = LiveQuestion(params, asyncio.get_running_loop().create_future())
        self._asked.put_nowait(question)
        return await question.reply

    def fail(self, failure: ActivityError) -> None:
        """It is over, whatever its server still sends."""
        if self.failure is None:
            self.failure = failure
            self._asked.put_nowait(None)

    def answer(self, answer: JsonValue) -> None:
        """Answer the question that is open."""
        if self.question is not None:
            self.answered.append(GivenAnswer(_digest(self.question.params), answer))
            self.question.answer(answer)
            self.question = None

    async def settled(self) -> ActivityOutcome | LiveQuestion:
        """What has become of the call, or the next question."""
        assert self.task is not None
        asked = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait((self.task, asked), return_when=asyncio.FIRST_COMPLETED)
            if self.failure is not None:
                return self.failure
            if self.task.done():
                return self.task.result()
            question = asked.result()
            assert question is not None  # or there would be a failure
            self.question = question
            return question
        finally:
            asked.cancel()

    async def stop(self) -> None:
        """Give the call up; the server is told, as far as that can be told quickly."""
        self.has_left = True
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait((self.task,), timeout=limits.FAREWELL_SECONDS_MAX)


CALL: ContextVar[LiveCall | None] = ContextVar("mcp_call", default=None)
"""The call on whose behalf messages are sent; over HTTP, what comes back on a call's own stream knows it."""


class ElicitationRouter:
    """The calls under way in one session: finds out which of them a question belongs to.

    Over HTTP a question comes on the stream of its call. On a pipe nothing says so; it belongs to the only call that
    asks nothing yet, or will be that when the others have ended: the one that asks cannot end before it is answered.
    From the first such question on, calls take turns: one at a time goes on, while others wait for their answers.
    """

    def __init__(self, on_flood: Callable[[], None] = lambda: None) -> None:
        self._on_flood = on_flood
        self._calls: set[LiveCall] = set()
        self._unclear: list[asyncio.Future[LiveCall | None]] = []
        self._takes_turns = False
        self.only_named = False
        """Whether a question that does not say whose it is goes to nobody: the calls are of different people."""
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def at_work(self, call: LiveCall) -> AsyncIterator[None]:
        """A call is under way in the session."""
        await self._take_turn(call)
        self._calls.add(call)
        token = CALL.set(call)
        try:
            yield
        finally:
            CALL.reset(token)
            self._calls.discard(call)
            self._leave_turn(call)
            self._sort()

    def calls_left(self) -> tuple[int, int]:
        """How many calls are under way that somebody waits for, and how many that everybody has left."""
        left = sum(call.has_left for call in self._calls)
        return len(self._calls) - left, left

    async def asked(self, context: object, params: Params) -> ElicitResult | ErrorData:
        """A question of the server."""
        named = CALL.get()
        if self.only_named and named not in self._calls:
            return ErrorData(code=INVALID_REQUEST, message="nothing says which call asks this")
        self._takes_turns = self._takes_turns or named not in self._calls
        if len(self._unclear) >= limits.MCP_QUESTIONS_PER_CALL_MAX:
            return self._flooded(tuple(self._calls))
        call = named if named in self._calls else await self._only()
        if call is not None and call.asked_count >= limits.MCP_QUESTIONS_PER_CALL_MAX:
            return self._flooded((call,))
        if call is None:
            message = "no call of a tool is under way that could ask this, or several are and nothing says which"
            return ErrorData(code=INVALID_REQUEST, message=message)
        call.asking += 1
        call.asked_count += 1
        self._leave_turn(call)
        self._sort()
        try:
            answer = await call.ask(params)
            await self._take_turn(call)  # with the answer, it goes on
            return answer
        finally:
            call.asking -= 1

    def _flooded(self, calls: tuple[LiveCall, ...]) -> ErrorData:
        """A server asks so much that nobody will answer it."""
        message = f"the server asks more than {limits.MCP_QUESTIONS_PER_CALL_MAX} questions in one call"
        for call in calls:
            call.fail(ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False))
        self._on_flood()
        return ErrorData(code=INVALID_REQUEST, message=message)

    async def _take_turn(self, call: LiveCall) -> None:
        if self._takes_turns:
            await self._turn.acquire()
            call.has_turn = True

    def _leave_turn(self, call: LiveCall) -> None:
        if call.has_turn:
            call.has_turn = False
            self._turn.release()

    async def _only(self) -> LiveCall | None:
        whose: asyncio.Future[LiveCall | None] = asyncio.get_running_loop().create_future()
        self._unclear.append(whose)
        self._sort()
        try:
            return await whose
        finally:
            self._unclear.remove(whose)

    def _sort(self) -> None:
        """Say whose the questions are, as far as that is clear by now."""
        # A call that waits for an answer asks nothing else, unless it is the only one.
        calls = [call for call in self._calls if not call.asking] or list(self._calls)
        open_now = [whose for whose in self._unclear if not whose.done()]
        if len(calls) == 1:
            for whose in open_now[:1]:
                whose.set_result(calls[0])
        elif len(open_now) >= len(calls):  # as many questions as calls: nothing will ever tell them apart
            for whose in open_now:
                whose.set_result(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeState:
    """What was left with a run whose activity asked something, and the answer to it."""

    parked: str | None = None
    answered: tuple[GivenAnswer, ...] = ()
    state: str | None = None
    requests: Mapping[str, JsonObject] = field(default_factory=dict)
    """The questions of a server of the newest era, by its keys."""
    responses: Mapping[str, JsonValue] = field(default_factory=dict)

    def open(self) -> str | None:
        """The key of the next question without an answer."""
        return next((key for key in self.requests if key not in self.responses), None)

    def input_responses(self) -> dict[str, Any] | None:
        """The answers as the protocol wants them."""
        if not self.requests:
            return None
        asked = {key: ElicitRequest.model_validate(request).params for key, request in self.requests.items()}
        return {key: _result(asked[key], self.responses[key]) for key in self.requests}


def resumed(resume: JsonValue, answer: JsonValue) -> ResumeState:
    """What an attempt goes on with; nothing for one that begins."""
    left = resume if isinstance(resume, dict) else {}
    requests, responses = _objects(left.get("requests")), dict(_object(left.get("responses")))
    if isinstance(left.get("key"), str):
        responses[str(left["key"])] = answer
    listed = left.get("answered")
    before = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    answered = [GivenAnswer(str(item.get("digest")), item.get("answer")) for item in before]
    if isinstance(left.get("asked"), str):
        answered.append(GivenAnswer(str(left["asked"]), answer))
    parked, state = left.get("parked"), left.get("state")
    return ResumeState(
        parked=parked if isinstance(parked, str) else None,
        answered=tuple(answered),
        state=state if isinstance(state, str) else None,
        requests=requests,
        responses=responses,
    )


def next_question(who: str, kept: ResumeState) -> ActivityAsks | ActivityError:
    """The next question of a server that is called again with the answers."""
    key = kept.open()
    assert key is not None
    request = kept.requests[key]
    if request.get("method") != "elicitation/create":
        message = f"{who} asks for {request.get('method')}, which it was not told that we can do"
        return ActivityError(message, "MCP_PROTOCOL_ERROR", retryable=False)
    resume: JsonObject = {
        "key": key,
        "state": kept.state,
        "requests": dict(kept.requests),
        "responses": dict(kept.responses),
    }
    return _asks(who, ElicitRequest.model_validate(request).params, resume)


def parked_question(who: str, call: LiveCall, question: LiveQuestion, parked: str) -> ActivityAsks | ActivityError:
    """The question of a call that waits for the answer on its connection."""
    resume: JsonObject = {
        "parked": parked,
        "asked": _digest(question.params),
        "answered": [item.as_json() for item in call.answered],
    }
    return _asks(who, question.params, resume)


def _asks(who: str, params: Params, resume: JsonObject) -> ActivityAsks | ActivityError:
    # Whoever reads it must know that not we ask: the words are those of a server of somebody else.
    if isinstance(params, ElicitRequestURLParams):
        message = f"{who} asks: {params.message}\nOpen {params.url} and say when it is done."
        return ActivityAsks(truncated(message), _DONE_SCHEMA, resume)
    schema = _refusable(msgspec.to_builtins(params.requested_schema))
    if len(msgspec.json.encode(schema)) > limits.MCP_FORM_BYTES_MAX:
        message = f"{who} asks with a form of more than {limits.MCP_FORM_BYTES_MAX} bytes"
        return ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False)
    problem = load_schema(schema)
    if isinstance(problem, SchemaProblem):
        message = f"{who} asks with a schema that cannot be used: {problem.message}"
        return ActivityError(message, "MCP_PROTOCOL_ERROR", retryable=False)
    return ActivityAsks(truncated(f"{who} asks: {params.message}"), schema, resume)


def _refusable(schema: JsonObject) -> JsonObject:
    """What the answer must fit: what the server asks for, or a refusal, if the server has no member of that name."""
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

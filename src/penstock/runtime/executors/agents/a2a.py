"""Agents that speak the A2A standard, through the official `a2a-sdk`: card, message, stream or polling, cancellation.

The result of a task is made from its artifacts (`a2a_contents`). An agent that asks a question asks a person through
the run, and the answer is sent into the same task. A task that nobody waits for any more is cancelled at the agent,
also one in which it asked.

Above it: `app` loads this module only when such agents are configured (extra `a2a`). Below it: the SDK, and httpx.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, A2AClientTimeoutError, AgentCardResolutionError
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from google.protobuf.json_format import Parse
from google.protobuf.struct_pb2 import Value

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityAsks, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.executors.agents.a2a_contents import json_of, result_of, text_of
from penstock.runtime.executors.agents.port import A2aAgent, AgentTask
from penstock.runtime.executors.outbound.bounded_body import TOO_LARGE, BodyTooLarge, ResponseLimits, was_too_large
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.executors.outbound.httpx_limits import limiting_hooks
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates

__all__ = ["A2aClients", "AgentStatus", "StatusListener"]

_LOGGER = logging.getLogger("penstock.a2a")
_UNAUTHORIZED: Final = (401, 403)
_NOT_FOUND: Final = 404
_CONNECT_SECONDS: Final = 10.0
_ANSWER: Final = ResponseLimits(bytes_max=limits.AGENT_ANSWER_BYTES_MAX, tokens_max=limits.AGENT_ANSWER_TOKENS_MAX)
_ENDED: Final = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
# The agent does nothing more until somebody answers.
_ASKING: Final = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
# Agents ask in text; anything in the answer beside the text is sent as data.
_ANSWER_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {"text": {"type": "string", "title": "Answer"}},
    "required": ["text"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """The state of a task, in the agent's words."""

    external_task_id: str
    state: str
    text: str


StatusListener: TypeAlias = Callable[[AgentTask, AgentStatus], None]


class _Misconfigured(Exception):
    """The card cannot be used."""


class _TaskGone(Exception):
    """The agent no longer knows the task in which it asked something."""


@dataclass(frozen=True, slots=True)
class _QuestionContext:
    """The place of an agent's question: its task, its context, and the message with the question."""

    task_id: str
    context_id: str
    message_id: str

    @classmethod
    def read(cls, resume: JsonValue) -> _QuestionContext | None:
        """Read the state that `as_json` stored with the run; None if it names no task."""
        named = resume if isinstance(resume, dict) else {}
        task_id = named.get("taskId")
        if not isinstance(task_id, str) or not task_id:
            return None
        return cls(task_id, str(named.get("contextId") or ""), str(named.get("messageId") or ""))

    def as_json(self) -> JsonObject:
        """The state that is stored with the run."""
        return {"taskId": self.task_id, "contextId": self.context_id, "messageId": self.message_id}


@dataclass(slots=True)
class _Agent:
    """An agent whose card was read, and the number of tasks that use the connection to it."""

    http: httpx.AsyncClient
    client: Client
    card: AgentCard
    users: int = 0
    retired: bool = False


@dataclass(slots=True)
class _Progress:
    """What is known about a task so far."""

    task: Task | None = None
    message: Message | None = None
    answered: str | None = None  # the message with the question that is answered now
    heard_bytes: int = 0

    @property
    def state(self) -> int:
        return self.task.status.state if self.task is not None else TaskState.TASK_STATE_UNSPECIFIED

    @property
    def over(self) -> bool:
        return self.message is not None or self.state in _ENDED or (self.state in _ASKING and not self.shows_answered)

    @property
    def shows_answered(self) -> bool:
        """True while the task still shows the answered question: the agent has not continued yet."""
        return self.task is not None and bool(self.answered) and self.task.status.message.message_id == self.answered

    def add(self, event: StreamResponse) -> None:
        """Add one event of a stream. Raises `BodyTooLarge` if all events together are too large to keep."""
        self.heard_bytes += event.ByteSize()
        if self.heard_bytes > limits.AGENT_RESULT_BYTES_MAX:
            raise BodyTooLarge(f"{TOO_LARGE}: {limits.AGENT_RESULT_BYTES_MAX} bytes about one task")
        match event.WhichOneof("payload"):
            case "task":
                self.task = event.task
            case "message":
                self.message = event.message
            case "status_update":
                update = event.status_update
                self._known(update.task_id, update.context_id).status.CopyFrom(update.status)
            case "artifact_update":
                self._hear_artifact(event.artifact_update)
            case _:
                pass

    def _known(self, task_id: str, context_id: str) -> Task:
        if self.task is None:
            self.task = Task(id=task_id, context_id=context_id)
        return self.task

    def _hear_artifact(self, update: TaskArtifactUpdateEvent) -> None:
        artifacts = self._known(update.task_id, update.context_id).artifacts
        for known in artifacts:
            if known.artifact_id == update.artifact.artifact_id:
                if update.append:
                    known.parts.extend(update.artifact.parts)
                else:
                    known.CopyFrom(update.artifact)
                return
        artifacts.append(update.artifact)


@dataclass(slots=True)
class A2aClients:
    """Gives tasks to A2A agents. It keeps one client per address while that client works."""

    on_status: StatusListener | None = None
    _agents: dict[str, _Agent] = field(default_factory=dict)

    async def delegate(self, agent: A2aAgent, task: AgentTask) -> ActivityOutcome:
        """Send the task, follow it to its end, and return the outcome."""
        progress = _Progress()
        try:
            async with asyncio.timeout(task.timeout_ms / 1000), self._using(agent, task.agent_id) as known:
                try:
                    await self._follow(known, agent, task, progress)
                except asyncio.CancelledError:
                    await _withdraw(known, progress)
                    raise
                except (A2AError, BodyTooLarge) as error:
                    if was_too_large(error):
                        await _withdraw(known, progress)
                    raise
        except TimeoutError:
            return ActivityError(f"{task.agent_id} did not end within {task.timeout_ms} ms", "ACTIVITY_TIMEOUT")
        except (A2AError, BodyTooLarge, _Misconfigured, _TaskGone) as error:
            return _failure(agent, task, error)
        return _outcome(task, progress)

    async def withdraw(self, agent: A2aAgent, task: AgentTask) -> ActivityOutcome:
        """Cancel a task in which the agent asked something. One that it has ended or forgotten needs no cancelling."""
        asked = _QuestionContext.read(task.resume)
        if asked is None:
            return ActivityDone(None)
        try:
            async with asyncio.timeout(limits.FAREWELL_SECONDS_MAX), self._using(agent, task.agent_id) as known:
                await known.client.cancel_task(CancelTaskRequest(id=asked.task_id))
        except (TaskNotCancelableError, TaskNotFoundError):
            pass
        except TimeoutError:
            message = f"{task.agent_id} did not answer within {limits.FAREWELL_SECONDS_MAX:g} s"
            return ActivityError(message, "ACTIVITY_TIMEOUT")
        except (A2AError, BodyTooLarge, _Misconfigured) as error:
            return _failure(agent, task, error)
        return ActivityDone(None, task.result_metadata(asked.task_id))

    async def close(self) -> None:
        """Close all connections."""
        agents, self._agents = self._agents, {}
        for known in agents.values():
            await known.http.aclose()

    async def _follow(self, known: _Agent, agent: A2aAgent, task: AgentTask, progress: _Progress) -> None:
        request = await _next_message(known, task, progress)
        await task.confirm()  # reading the card may have taken a while
        try:
            async for event in known.client.send_message(request) if request is not None else _nothing():
                progress.add(event)
                self._tell(task, progress)
                await asyncio.sleep(0)  # many events may have arrived at once, and each takes a while to decode
        except A2AClientError as error:
            # If we know the id of the task, a broken stream says nothing about its state.
            if progress.task is None or not progress.task.id or was_too_large(error):
                raise
        await asyncio.sleep(0)
        interval_ms = agent.poll_interval_ms or limits.AGENT_POLL_MS_DEFAULT
        while progress.task is not None and not progress.over:
            progress.task = await known.client.get_task(GetTaskRequest(id=progress.task.id))
            self._tell(task, progress)
            if not progress.over:
                await asyncio.sleep(interval_ms / 1000)

    def _tell(self, task: AgentTask, progress: _Progress) -> None:
        known = progress.task
        if self.on_status is not None and known is not None:
            text = truncated(text_of(known.status.message.parts))
            self.on_status(task, AgentStatus(external_task_id=known.id, state=_state_name(known), text=text))

    @asynccontextmanager
    async def _using(self, agent: A2aAgent, agent_id: str) -> AsyncIterator[_Agent]:
        """The client of an agent. A client that could not reach it is replaced, and closed after its last use."""
        known = self._agents.get(agent_id)
        if known is None:
            met = await _meet(agent)
            # Two first tasks may read the card at the same time; one client is enough.
            known = self._agents.setdefault(agent_id, met)
            if known is not met:
                await met.http.aclose()
        known.users += 1
        try:
            yield known
        except A2AClientError:
            known.retired = True  # agents move: the next task reads the card again
            if self._agents.get(agent_id) is known:
                del self._agents[agent_id]
            raise
        finally:
            known.users -= 1
            if known.retired and not known.users:
                await known.http.aclose()


async def _next_message(known: _Agent, task: AgentTask, progress: _Progress) -> SendMessageRequest | None:
    """The message to send: the task or the answer to the agent's question; None if the agent has the answer already."""
    asked = _QuestionContext.read(task.resume)
    if asked is None:
        return _request(known.card, task)
    try:
        progress.task = await known.client.get_task(GetTaskRequest(id=asked.task_id))
    except TaskNotFoundError as error:
        raise _TaskGone(f"it no longer knows the task {asked.task_id}, in which it asked something") from error
    progress.answered = asked.message_id
    if progress.state not in _ASKING or (asked.message_id and not progress.shows_answered):
        return None  # a process that stopped before it saw the outcome has already sent the answer
    return _reply(known.card, task, asked)


async def _nothing() -> AsyncIterator[StreamResponse]:
    return
    yield  # makes this function an iterator


async def _withdraw(known: _Agent, progress: _Progress) -> None:
    """Cancel the task at the agent, as far as that can be done quickly."""
    if progress.task is None or progress.over:
        return
    telling = asyncio.create_task(known.client.cancel_task(CancelTaskRequest(id=progress.task.id)))
    try:
        await asyncio.wait([telling], timeout=limits.FAREWELL_SECONDS_MAX)
    finally:
        if not telling.cancel() and telling.exception() is not None:
            _LOGGER.debug("could not notify %s of a cancellation: %r", known.card.name, telling.exception())


async def _meet(agent: A2aAgent) -> _Agent:
    headers = dict(agent.headers)
    if agent.api_key is not None:
        headers["authorization"] = f"Bearer {agent.api_key}"
    http = httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
        event_hooks=limiting_hooks(_ANSWER),
        verify=await trusted_certificates(),
    )
    try:
        card = await A2ACardResolver(http, agent.url).get_agent_card()
        allowed = {_origin(agent.url), *(_origin(url) for url in agent.trusted_origins)}
        offered = [interface for interface in card.supported_interfaces if _origin(interface.url) in allowed]
        if not offered:
            elsewhere = ", ".join(sorted({_origin(interface.url) for interface in card.supported_interfaces}))
            raise _Misconfigured(f"its card points to {elsewhere or 'no address'}, which is not trusted")
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(offered)
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=["JSONRPC", "HTTP+JSON"],
            # Without a stream, an immediate answer gives us the id. A task without an id cannot be cancelled.
            polling=not card.capabilities.streaming,
        )
        return _Agent(http, ClientFactory(config).create(card), card)
    except ValueError as error:
        await http.aclose()
        raise _Misconfigured(str(error)) from error
    except BaseException:
        await http.aclose()
        raise


def _origin(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _request(card: AgentCard, task: AgentTask) -> SendMessageRequest:
    parts = [_part(card, task.input)]
    if task.answer is not None:
        # We cannot continue the task in which the question was asked, so a new task starts with the answer.
        parts.extend(_answer_parts(card, task.answer))
    return _message(task, parts, task.idempotency_key)


def _reply(card: AgentCard, task: AgentTask, asked: _QuestionContext) -> SendMessageRequest:
    request = _message(task, _answer_parts(card, task.answer), f"{task.idempotency_key}/{task.round}")
    request.message.task_id = asked.task_id
    request.message.context_id = asked.context_id
    return request


def _message(task: AgentTask, parts: list[Part], message_id: str) -> SendMessageRequest:
    message = Message(role=Role.ROLE_USER, parts=parts, message_id=message_id)
    known = {"delegateCorrelationId": task.correlation_id, "idempotencyKey": task.idempotency_key}
    message.metadata.update({**known, "epoch": task.epoch} if task.epoch else known)
    return SendMessageRequest(message=message)


def _answer_parts(card: AgentCard, answer: JsonValue) -> list[Part]:
    """The answer as the agent gets it: its text, and any other fields as data."""
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        return [_part(card, answer)]
    beside: JsonObject = {name: value for name, value in answer.items() if name != "text"}
    return [_part(card, answer["text"]), *([_part(card, beside)] if beside else [])]


def _part(card: AgentCard, value: JsonValue) -> Part:
    modes = list(card.default_input_modes)
    takes_data = not modes or any(mode.startswith(("application/json", "application/*", "*/*")) for mode in modes)
    if isinstance(value, str):
        return Part(text=value)
    if takes_data:
        return Part(data=Parse(json.dumps(value), Value()), media_type="application/json")
    return Part(text=json.dumps(value, ensure_ascii=False))


def _outcome(task: AgentTask, progress: _Progress) -> ActivityOutcome:
    if progress.message is not None:
        return ActivityDone(result_of(task, [progress.message]), task.result_metadata(progress.message.message_id))
    done = progress.task
    if done is None:
        return ActivityError(f"{task.agent_id} answered nothing", "DELEGATE_PROTOCOL_ERROR")
    status_text = truncated(text_of(done.status.message.parts))
    match done.status.state:
        case TaskState.TASK_STATE_COMPLETED:
            return ActivityDone(
                result_of(task, list(done.artifacts) or [done.status.message]), task.result_metadata(done.id)
            )
        case TaskState.TASK_STATE_INPUT_REQUIRED:
            return _question(task, done)
        case TaskState.TASK_STATE_AUTH_REQUIRED:
            message = f"{task.agent_id} requires authentication: {status_text}"
            return ActivityError(
                message, "A2A_CREDENTIALS_MISSING", retryable=False, extra=task.result_metadata(done.id)
            )
        case TaskState.TASK_STATE_FAILED:
            message = status_text or f"{task.agent_id} failed without a reason"
            return ActivityError(message, "A2A_TASK_FAILED", extra=task.result_metadata(done.id))
        case _:
            message = f"{task.agent_id} ended the task as {_state_name(done)}" + (
                f": {status_text}" if status_text else ""
            )
            return ActivityError(message, "A2A_TASK_FAILED", retryable=False, extra=task.result_metadata(done.id))


def _question(task: AgentTask, asking: Task) -> ActivityAsks:
    message = asking.status.message
    question_text = text_of(message.parts) or json.dumps([json_of(part) for part in message.parts], ensure_ascii=False)
    asked = _QuestionContext(asking.id, asking.context_id, message.message_id)
    question = truncated(question_text if message.parts else f"{task.agent_id} needs more information")
    return ActivityAsks(question, _ANSWER_SCHEMA, asked.as_json())


def _state_name(task: Task) -> str:
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def _failure(agent: A2aAgent, task: AgentTask, error: Exception) -> ActivityError:
    message = truncated(f"{task.agent_id}: {error}", hidden=agent.api_key)
    status = _status(error)
    if was_too_large(error):
        return ActivityError(message, "A2A_RESULT_TOO_LARGE", retryable=False)
    if status in _UNAUTHORIZED:
        return ActivityError(f"{task.agent_id} refused the key", "A2A_CREDENTIALS_MISSING", retryable=False)
    match error:
        case _Misconfigured():
            return ActivityError(message, "A2A_CONFIG_INVALID", retryable=False)
        case _TaskGone():
            return ActivityError(message, "A2A_TASK_FAILED")  # another attempt starts a new task
        case AgentCardResolutionError() if status == _NOT_FOUND:
            return ActivityError(message, "A2A_CONFIG_INVALID", retryable=False)
        case A2AClientTimeoutError() | A2AClientError() | InternalError() | InvalidAgentResponseError():
            return ActivityError(message, "A2A_PROVIDER_ERROR")
        case _:
            # The agent understood the protocol and refused the request. It would refuse the same request again.
            return ActivityError(message, "DELEGATE_PROTOCOL_ERROR", retryable=False)


def _status(error: Exception) -> int | None:
    cause = error.__cause__
    return cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None

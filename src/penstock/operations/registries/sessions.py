"""Sessions: conversations with agents that last. `agent.message` says something; `session.*` look at them and end them.

Each message is a run of the agent's workflow that begins with a bounded part of what was said before. A session answers
one message at a time. What was said is in the runs: it is kept as long as they are.

Above it: the catalogue. Below it: `session_runs`, `runs.starting`, `runs.results`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, PenstockError, Unavailable
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, object_or_empty
from penstock.engine.outcomes import Accepted
from penstock.engine.state import RunState
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route, StreamEvent
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.catalogue.reaching import named
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Request
from penstock.operations.gate.internal_callers import system_principal
from penstock.operations.gate.outcomes import RefusedCall
from penstock.operations.permissions.admission import admit_start
from penstock.operations.permissions.authorship import marks_of
from penstock.operations.permissions.starting import needs_of
from penstock.operations.registries.registry import resource_id_type
from penstock.operations.registries.session_runs import (
    KEY_LABEL,
    SESSION_LABEL,
    SESSION_OWNER_LABEL,
    SESSIONS,
    FoundAgent,
    Session,
    find_agent,
    find_session,
    last_turn,
    new_session,
    owner_of,
    run_of_turn,
    session_of_row,
)
from penstock.operations.runs.fields import CHOSEN_ID, Wait
from penstock.operations.runs.handles import patience
from penstock.operations.runs.held_access import with_held_calls
from penstock.operations.runs.results import ExecutionResult, result_of, wait_for_result
from penstock.operations.runs.starting import ExecuteWorkflow, find_startable, started_run
from penstock.operations.runs.streams.reader import open_stream
from penstock.operations.runs.views import ErrorView, error_of
from penstock.runtime.ports.platform import ANY_ETAG
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.tables.resources import delete_resource, put_resource, read_resource

__all__ = ["FORGET_SESSION", "OPERATIONS"]

_OWNER = "-agents"
"""The owner of the workflows of sessions. No tenant can have this name."""
_DEFINE = "session.define"
FORGET_SESSION = "session.forget"
_ENDED = ("completed", "failed", "cancelled")
_TAKEN = "DUPLICATE_EXECUTION_ID"

SessionId = Annotated[str, Meta(description="The id of the session.", pattern=CHOSEN_ID, examples=["s_01J9ZQ"])]


class SendMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said to which agent, and in which session."""

    agent_id: resource_id_type("agent", "helper")  # type: ignore[valid-type]  # made by a function
    message: Annotated[str, Meta(description="What to say.", min_length=1, max_length=100_000)]
    session_id: Annotated[
        SessionId | None, Meta(description="The session to continue. Otherwise a new one starts.")
    ] = None
    context: Annotated[dict[str, Any] | None, Meta(description="Facts that it needs.")] = None
    sync: Annotated[bool, Meta(description="Wait for the answer, for a bounded time; see `wait_seconds`.")] = False
    wait_seconds: Wait = None


class MessageResult(ExecutionResult, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a message: the session, and the status of the run that answers it."""

    session_id: str
    turn: int
    """The number of the message in its session, from 1."""


class DefineSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agent."""

    agent_id: str


class DefinedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is stored."""

    hash: str


@operation(_DEFINE, route=None, scopes=("workflow:write",), subject="agent_id")
async def session_define(context: Context, given: DefineSession) -> DefinedSession:
    """Store the workflow that answers messages to an agent."""
    workflow = (await find_agent(context, given.agent_id)).workflow
    context.call.about(None, hash=workflow.hash)
    await context.services.host.register(
        workflow, tenant=_OWNER, created_by=context.principal.id, call=lambda row: context.call
    )
    return DefinedSession(hash=workflow.hash)


async def _define(context: Context, agent: FoundAgent) -> None:
    """Store the workflow of messages to an agent, with a call of its own, unless that version is stored."""
    if await context.services.store.definitions.find(agent.workflow.hash) is not None:
        return
    call = None if context.holds is None else context.holds.call
    if call is None:
        raise Unavailable(
            "NOT_CONFIGURED",
            "this process cannot store the workflow of the agent",
            "send the call to a server (`penstock serve`)",
        )
    outcome = await call(
        Request(
            operation=_DEFINE,
            arguments={"agent_id": agent.agent_id},
            principal=system_principal("agents", "workflow:write", tenant=context.tenant),
            surface="system",
            request_id=context.request.request_id,
        )
    )
    if isinstance(outcome, RefusedCall):
        raise outcome.error


async def _session_of(context: Context, given: SendMessage) -> tuple[Session, str | None]:
    """Return the session of a message, perhaps a new one, and what marks the call, if it has an idempotency key."""
    named = msgspec.structs.replace(context.request, operation=context.capability.name)
    key = idempotency.derived_id(context.principal, named)
    if given.session_id is None:
        return new_session(context, given.agent_id, f"s_{key}" if key else f"s_{context.services.new_id()[2:]}"), key
    session = await find_session(context, given.session_id)
    if session.agent_id != given.agent_id:
        message = f"the session {session.session_id} belongs to the agent {session.agent_id}"
        raise Conflict("SESSION_OF_ANOTHER_AGENT", message, "send the message to that agent, or leave `session_id` out")
    if session.ended_at is not None:
        message = f"the session {session.session_id} has ended"
        raise Conflict("SESSION_ENDED", message, "leave `session_id` out to start a new session")
    return session, key


async def _find(context: Context, given: SendMessage) -> object:
    await _session_of(context, given)
    agent = await find_agent(context, given.agent_id)
    if agent.stored is None:
        return agent
    return await find_startable(context, ExecuteWorkflow(workflow_id=given.agent_id, input=_work(given)))


def _work(given: SendMessage) -> JsonObject:
    return {"prompt": given.message} | ({} if given.context is None else {"context": given.context})


def _busy(context: Context, session: Session, row: RunRow | None) -> Conflict:
    message = f"the session {session.session_id} has a message without an answer yet"
    if row is None:
        return Conflict("SESSION_BUSY", message, "wait for its answer, then send the next message")
    execution_id = id_for_callers(context.tenant, row.run_id)
    hint = f"wait for the run {execution_id} with execution.wait, or end it with execution.cancel"
    if row.status.startswith("waiting_") and row.status != "waiting_activity":
        hint = (
            f"the run {execution_id} asks a question: answer it with execution.answer, or end it with execution.cancel"
        )
    return Conflict("SESSION_BUSY", message, hint, {"execution_id": execution_id, "status": row.status})


@operation(
    "agent.message",
    route=Route(method="POST", path="/agents/{agent_id}/messages", status=202, other_statuses=(200,), streams=True),
    scopes=("agent:run",),
    open_world=True,
    risk="medium",
    subject="agent_id",
    find=_find,
    reaches=named("agent:", "agent_id"),
    errors=(
        *SIGNATURE_ERRORS,
        "AGENT_NOT_FOUND",
        "AGENT_TAKES_NO_MESSAGES",
        "WORKFLOW_NOT_FOUND",
        "SESSION_NOT_FOUND",
        "SESSION_BUSY",
        "SESSION_ENDED",
        "SESSION_OF_ANOTHER_AGENT",
        "INPUT_INVALID",
        "QUOTA_EXCEEDED",
        "VALUE_NOT_JSON",
        "NOT_CONFIGURED",
        "STREAMS_LIMITED",
    ),
    examples=(
        Example(arguments={"agent_id": "helper", "message": "Which refunds wait for approval?", "sync": True}),
        Example(arguments={"agent_id": "helper", "session_id": "s_01J9ZQ", "message": "And of last week?"}),
    ),
)
async def agent_message(context: Context, given: SendMessage) -> Reply[MessageResult]:
    """Send a message to an agent.

    Starts a session, or continues one of yours: the agent knows what was said before. The answer comes from a durable
    run. With `sync`, the call waits for a limited time until the agent has answered or asks something; otherwise wait
    with execution.wait. Until a message is answered, further messages are refused.
    """
    session, key = await _session_of(context, given)
    agent = await find_agent(context, given.agent_id)
    turn, before = await last_turn(context, session)
    answer: idempotency.DecidedAnswer | None = None
    if before is not None and key is not None and before.labels.get(KEY_LABEL) == key:
        row = before  # the same call, after a crash
    else:
        if before is not None and not before.terminal:
            raise _busy(context, session, before)
        await _define(context, agent)
        turn += 1
        if context.request.streams or not (given.sync or given.wait_seconds):
            answer = idempotency.answered_by(context, lambda decision: _begun(context, session, turn, decision))
        with context.services.host.progress.starting():
            row = await _started(context, given, agent, session, (turn, before, key))
    await put_resource(
        context.services.platform,
        session.stored_as(context, turns=turn),
        expected_etag=None if session.row is None else session.row.etag,
        call=context.call,
    )
    if context.request.streams:
        told: JsonObject = {"session_id": session.session_id, "turn": turn}
        begun = StreamEvent(event="begun", data={**told, "execution_id": id_for_callers(context.tenant, row.run_id)})
        return open_stream(context, row, first=begun)  # type: ignore[return-value]  # the gate takes both
    if given.sync or given.wait_seconds:
        result = await wait_for_result(context, row.run_id, patience(context, given.wait_seconds))
        return _reply(session, turn, await with_held_calls(context, result))
    if answer is not None and answer.reply is not None:
        return answer.reply
    state = await context.services.host.read(row.run_id)
    return _reply(session, turn, result_of(context.tenant, state if state is not None else _gone()))


def _gone() -> RunState:
    raise Conflict("SESSION_BUSY", "the run was deleted while it was starting", "send the message again")


def _begun(context: Context, session: Session, turn: int, decision: Accepted) -> Reply[MessageResult]:
    return _reply(session, turn, result_of(context.tenant, decision.state))


def _reply(session: Session, turn: int, result: ExecutionResult) -> Reply[MessageResult]:
    known = {name: getattr(result, name) for name in ExecutionResult.__struct_fields__}
    return Reply(
        value=MessageResult(**known, session_id=session.session_id, turn=turn),
        status=200 if result.status in _ENDED else 202,
        location=f"/executions/{result.execution_id}",
    )


async def _started(
    context: Context,
    given: SendMessage,
    agent: FoundAgent,
    session: Session,
    place: tuple[int, RunRow | None, str | None],
) -> RunRow:
    """Start the run that answers a message. Of two at once, the store takes one, and the other is refused."""
    turn, before, key = place
    work = _work(given)
    if agent.stored is not None:
        row = await find_startable(context, ExecuteWorkflow(workflow_id=given.agent_id, input=work))
        await admit_start(context, [needs_of(context.services, row)])
    state = None if before is None else await context.services.host.read(before.run_id)
    start = ExecuteWorkflow(workflow_id=agent.workflow.name, input={**work, "conversation": agent.conversation(state)})
    marks = marks_of(agent.author)
    labels = {SESSION_LABEL: session.session_id, SESSION_OWNER_LABEL: session.owner, **marks.labels}
    try:
        return await started_run(
            context,
            start,
            definition_hash=agent.workflow.hash,
            chosen=(run_of_turn(context, session.session_id, turn), False),
            marks=marks._replace(labels=labels if key is None else {**labels, KEY_LABEL: key}),
            untrusted=state is not None and state.untrusted,
        )
    except PenstockError as error:
        if error.code == _TAKEN:
            raise _busy(context, session, None) from None
        raise


class ListSessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class SessionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session, and since when nothing was said in it."""

    id: str
    agent_id: str
    status: str
    """open or ended."""
    turns: int
    """How many messages there were."""
    created_at: str | None = None
    updated_at: str | None = None


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions."""

    items: list[SessionView]
    next_cursor: str | None = None


class ReadSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session, and which part of it."""

    session_id: SessionId
    before: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Only turns before this one; without it, the last ones.")
    ] = None
    limit: Annotated[int, Meta(description="How many turns at most.", ge=1, le=limits.SESSION_TURNS_READ_MAX)] = 20


class TurnView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message and its result. If its run is gone, only its number and `deleted` are known."""

    turn: int
    execution_id: str
    status: str
    message: str | None = None
    output: Any = None
    error: ErrorView | None = None
    tools: list[str] = []
    """The tools that were called, in order."""
    untrusted: bool = False


class SessionDetail(SessionView, frozen=True, kw_only=True, omit_defaults=True):
    """A session, and what was said in it, oldest first."""

    items: list[TurnView] = []


class OneSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session."""

    session_id: SessionId


def _view(session: Session, turns: int) -> JsonObject:
    row = session.row
    return {
        "id": session.session_id,
        "agent_id": session.agent_id,
        "status": "open" if session.ended_at is None else "ended",
        "turns": turns,
        "created_at": None if row is None else instant(row.created_at),
        "updated_at": None if row is None else instant(row.updated_at),
    }


@operation(
    "session.list",
    route=Route(method="GET", path="/sessions", query=("limit", "cursor")),
    scopes=("agent:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def session_list(context: Context, given: ListSessions) -> SessionPage:
    """List your sessions.

    Returns the conversations with agents that you started, by id; nobody else sees them here.
    """
    page = await SESSIONS.page(context, limit=given.limit, cursor=given.cursor, prefix=f"{owner_of(context)}.")
    found = map(session_of_row, page.rows)
    return SessionPage(
        items=[SessionView(**_view(session, session.turns)) for session in found],  # type: ignore[arg-type]  # by name
        next_cursor=page.next_cursor,
    )


@operation(
    "session.get",
    route=Route(method="GET", path="/sessions/{session_id}", query=("before", "limit")),
    scopes=("agent:read",),
    reads=True,
    reveals="runs",
    subject="session_id",
    errors=("SESSION_NOT_FOUND",),
    examples=(Example(arguments={"session_id": "s_01J9ZQ"}),),
)
async def session_get(context: Context, given: ReadSession) -> SessionDetail:
    """Read one of your sessions.

    Returns its messages, oldest first: each with the answer, or with the status of the run that answers it.
    """
    session = await find_session(context, given.session_id)
    turns, _ = await last_turn(context, session)
    last = turns if given.before is None else min(turns, given.before - 1)
    numbers = range(max(1, last - given.limit + 1), last + 1)
    items = [await _turn(context, session, number) for number in numbers]
    return SessionDetail(**_view(session, turns), items=items)  # type: ignore[arg-type]  # members by name


async def _turn(context: Context, session: Session, number: int) -> TurnView:
    run_id = run_of_turn(context, session.session_id, number)
    state = await context.services.host.read(run_id)
    if state is None:
        return TurnView(turn=number, execution_id=id_for_callers(context.tenant, run_id), status="deleted")
    result = result_of(context.tenant, state)
    message = object_or_empty(state.input).get("prompt")
    return TurnView(
        turn=number,
        execution_id=result.execution_id,
        status=result.status,
        message=message if isinstance(message, str) else None,
        output=result.output,
        error=error_of(state),
        tools=_tools(state),
        untrusted=state.untrusted,
    )


def _tools(state: RunState) -> list[str]:
    """Return the tools that were called since the message."""
    said = object_or_empty(state.values).get("conversation")
    entries = [entry for entry in said if isinstance(entry, dict)] if isinstance(said, list) else []
    since = max((index for index, entry in enumerate(entries) if entry.get("message") is True), default=0)
    return [str(entry.get("name")) for entry in entries[since:] if entry.get("role") == "tool"]


async def _find_session(context: Context, given: OneSession) -> object:
    return await find_session(context, given.session_id)


@operation(
    "session.end",
    route=Route(method="POST", path="/sessions/{session_id}/end"),
    scopes=("agent:run",),
    subject="session_id",
    find=_find_session,
    errors=("SESSION_NOT_FOUND", "SESSION_BUSY", "PRECONDITION_FAILED"),
    examples=(Example(arguments={"session_id": "s_01J9ZQ"}),),
)
async def session_end(context: Context, given: OneSession) -> SessionView:
    """End one of your sessions.

    It accepts no further messages, and stays readable as long as its runs are kept. Refused while a message has no
    answer.
    """
    session = await find_session(context, given.session_id)
    turns, row = await last_turn(context, session)
    if row is not None and not row.terminal:
        raise _busy(context, session, row)
    if session.ended_at is not None or session.row is None:
        return SessionView(**_view(session, turns))  # type: ignore[arg-type]  # members by name
    ended = session.stored_as(context, turns=turns, ended_at=context.now_ms())
    view = SessionView(**_view(session_of_row(ended), turns))  # type: ignore[arg-type]  # members by name
    await SESSIONS.store(context, ended, session.row.etag, Reply(value=view))
    return view


class ForgetSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which session, by the labels of a run that was deleted."""

    session_id: str
    owner: str


class ForgottenSession(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it was deleted."""

    deleted: bool


@operation(
    FORGET_SESSION, route=None, scopes=("execution:delete",), destructive=True, risk="high", subject="session_id"
)
async def session_forget(context: Context, given: ForgetSession) -> ForgottenSession:
    """Delete a session whose last run is past its time; one that has a later run stays."""
    row = await read_resource(
        context.services.platform, context.tenant, SESSIONS.kind, f"{given.owner}.{given.session_id}"
    )
    if row is None or (await last_turn(context, session_of_row(row)))[1] is not None:
        return ForgottenSession(deleted=False)
    await delete_resource(
        context.services.platform,
        context.tenant,
        SESSIONS.kind,
        row.resource_id,
        expected_etag=ANY_ETAG,
        call=context.call,
    )
    return ForgottenSession(deleted=True)


OPERATIONS: tuple[Capability, ...] = (
    agent_message,
    session_list,
    session_get,
    session_end,
    session_define,
    session_forget,
)

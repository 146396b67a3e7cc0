"""What `tool_call` nodes with `server: penstock` do: calls of this server's own capabilities, through the gate.

    {type: tool_call, server: penstock, tool: workflow:refund_order, arguments: {…}}            one capability
    {type: tool_call, server: penstock, tool: tools/call, allow: [query:*], arguments: {name, arguments}}
    {type: tool_call, server: penstock, tool: tools/list, allow: [query:*]}                     what may be called

A call has the rights that the starter of the run has now, and no others; `allow` can only narrow them. If a model
chose it (`by_model`), or began the run, the gate treats it like any call by a model: it may have to wait for a person,
and it approves nothing.

The idempotency key is derived from the visit, so that an attempt that is repeated after a crash gets the first answer.
A call that starts a run, or waits for approval, is a run with an id derived from that key. The node looks for that run
first, waits until it has ended, without a place among the activities that are performed at once, and returns its
result: so a call is not made twice, however long it waits. If the node's run is cancelled or times out first, the run
of the call is cancelled too, and a held call is never made.

Above it: `app` performs such nodes with `call_from_node`. Below it: the gate, `permissions.run_principals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.approved import approved_reach
from penstock.engine.state import RunState
from penstock.engine.transitions import RunStatus
from penstock.engine.values import plain_json
from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import REGISTERED_TOOL, Capability, EventStream, Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import NodeVisit, Request, Services
from penstock.operations.gate.pipeline import Gate, Outcome, RefusedCall
from penstock.operations.gate.policy_stage import Standpoint
from penstock.operations.permissions.abandoned_calls import abandon_call
from penstock.operations.permissions.run_principals import rights_of_run
from penstock.operations.permissions.weaker import narrow_to_authors
from penstock.operations.runs.held_calls import HELD_LABEL, held_key
from penstock.operations.runs.imported_tools import UPSTREAM
from penstock.operations.runs.results import ExecutionResult, result_of
from penstock.operations.runs.starting import DEPTH_LABEL, TRUST_LABEL
from penstock.operations.runs.views import ExecutionHandle
from penstock.runtime.activities.performing import (
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
)

__all__ = ["TOOLS_CALL", "TOOLS_LIST", "call_from_node", "is_allowed"]

TOOLS_CALL, TOOLS_LIST = "tools/call", "tools/list"
# What may go well a moment later. Anything else stays refused.
_PASSING = frozenset({"BRANCH_BUSY", "RATE_LIMITED", "STORE_BUSY", "STORE_UNAVAILABLE"})
_IN_FLIGHT = "IDEMPOTENCY_IN_FLIGHT"
_LOOK_AGAIN_SECONDS = 1.0
# Of arguments that do not fit.
_MISTAKES_TOLD = 10
# How long one wait for a run lasts before it is read again: a commit of any process ends it sooner.
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a node wants called."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    """The run that calls, and as whom."""

    labels: Mapping[str, str]
    principal: Principal
    approved: JsonObject | None = None
    """What the run may reach, if a person approved its start."""

    @property
    def depth(self) -> int:
        """How many runs called each other to get to this one."""
        said = self.labels.get(DEPTH_LABEL, "0")
        return int(said) if said.isdecimal() else limits.CALLED_RUNS_DEPTH_MAX


async def call_from_node(gate: Gate, call: ActivityCall) -> ActivityOutcome:
    """Make the call that a node describes, and return its outcome."""
    config = call.activity.config
    by_model = config.get("by_model") is True
    try:
        caller = await _caller(gate.services, call)
        if config.get("tool") == TOOLS_LIST:
            return await _listed(gate, call, caller, by_model=by_model)
        wanted = _wanted(call)
        if isinstance(wanted, ActivityError):
            return wanted
        return await _call(gate, call, caller, wanted)
    except PenstockError as error:
        return _failed(call, error)


async def _caller(services: Services, call: ActivityCall) -> _Caller:
    state = await services.host.read(call.run_id)
    if state is None:
        raise PenstockError("EXECUTION_NOT_FOUND", f"there is no run {call.run_id}")
    principal = await narrow_to_authors(services, await rights_of_run(services, state), call.run_id)
    return _Caller(labels=call.labels, principal=principal, approved=approved_reach(state.starter))


def _patterns(config: JsonObject) -> tuple[str, ...]:
    allowed = config.get("allow")
    return tuple(name for name in allowed if isinstance(name, str)) if isinstance(allowed, list) else ()


def is_allowed(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a list of names has this one: by itself, or with a name that ends with `*`."""
    return any(name.startswith(item[:-1]) if item.endswith("*") else name == item for item in patterns)


def _wanted(call: ActivityCall) -> _Wanted | ActivityError:
    config, given = call.activity.config, call.activity.arguments
    arguments = config.get("arguments") if given is None else given
    members = arguments if isinstance(arguments, dict) else {}
    tool = config.get("tool")
    if tool != TOOLS_CALL:
        if not isinstance(tool, str) or (arguments is not None and not isinstance(arguments, dict)):
            return _invalid(call, "`tool` must be a name, and `arguments` an object")
        return _Wanted(name=tool, arguments=members)
    name, inner = members.get("name"), members.get("arguments", {})
    if not isinstance(name, str) or not isinstance(inner, dict):
        return _invalid(call, f"{TOOLS_CALL} takes the name of a tool, and an object with its arguments")
    if not is_allowed(name, _patterns(config)):
        message = f"{call.masked(name)[: limits.AUDIT_NAME_CHARACTERS_MAX]} is not among the tools that may be called"
        return ActivityError(message, "TOOL_NOT_ALLOWED", retryable=False)
    return _Wanted(name=name, arguments=inner)


def _invalid(call: ActivityCall, message: str) -> ActivityError:
    return ActivityError(f"{call.activity.node_id}: {message}", "TOOL_CALL_INVALID", retryable=False)


# --- listing -----------------------------------------------------------------------------------------


async def _listed(gate: Gate, call: ActivityCall, caller: _Caller, *, by_model: bool) -> ActivityOutcome:
    """Return the tools of a list as their caller may see them now, and which of those named there are none of them."""
    patterns = _patterns(call.activity.config)
    standpoint = Request(
        operation=TOOLS_LIST,
        arguments={},
        principal=caller.principal,
        surface="run",
        request_id="",
        visit=_visit(call, caller, by_model=by_model),
    ).standpoint
    visible = (*await gate.visible(caller.principal, standpoint), *await _registered(gate, caller, standpoint))
    found = sorted((item for item in visible if is_allowed(item.name, patterns)), key=lambda item: item.name)
    if len(found) > limits.LLM_TOOLS_MAX:
        message = f"the list stands for {len(found)} tools, and {limits.LLM_TOOLS_MAX} are offered at most"
        return ActivityError(message, "TOOLS_TOO_MANY", retryable=False)
    tools: list[JsonValue] = [_described(item) for item in found]
    if len(encode_bytes(tools)) > limits.LISTED_TOOLS_BYTES_MAX:
        message = f"the descriptions of the tools are larger than {limits.LISTED_TOOLS_BYTES_MAX} bytes"
        return ActivityError(message, "TOOLS_TOO_MANY", retryable=False)
    names = {item.name for item in found}
    missing: list[JsonValue] = [name for name in patterns if not name.endswith("*") and name not in names]
    return ActivityDone({"tools": tools, "left_out": missing})


async def _registered(gate: Gate, caller: _Caller, standpoint: Standpoint) -> list[Capability]:
    """Return the registered tools that no list of MCP tools shows, as far as their caller may call them."""
    exposure = await gate.exposed.of(caller.principal.tenant)
    unlisted = [item for item in exposure.unlisted.values() if item.populator == REGISTERED_TOOL]
    allowed = await gate.lists.allowed(caller.principal, unlisted, standpoint, ("unlisted", exposure.revision))
    return [item for item in unlisted if item.name in allowed]


def _described(item: Capability) -> JsonObject:
    """Return the description of a tool for a model. What another server says of its own tools is not trusted."""
    return {
        "name": item.name,
        "description": item.description,
        "input_schema": item.input_schema,
        "trusted": item.populator != UPSTREAM and item.metadata.get("borrowed") is not True,
    }


# --- calling -----------------------------------------------------------------------------------------


def _visit(call: ActivityCall, caller: _Caller, *, by_model: bool) -> NodeVisit:
    return NodeVisit(
        run_id=call.run_id,
        node_id=call.activity.node_id,
        visit=call.activity.visit,
        depth=caller.depth + 1,
        by_model=by_model or TRUST_LABEL in caller.labels,
        approved=caller.approved,
    )


async def _call(gate: Gate, call: ActivityCall, caller: _Caller, wanted: _Wanted) -> ActivityOutcome:
    if caller.depth >= limits.CALLED_RUNS_DEPTH_MAX:
        message = f"{limits.CALLED_RUNS_DEPTH_MAX} runs have called each other already, this one the last of them"
        return ActivityError(message, "CALLS_TOO_DEEP", retryable=False)
    request = Request(
        operation=wanted.name,
        arguments=wanted.arguments,
        principal=caller.principal,
        surface="run",
        request_id=gate.services.new_id(),
        idempotency_key=_key(call),
        patience_seconds=limits.NODE_CALL_WAIT_SECONDS,
        visit=_visit(call, caller, by_model=call.activity.config.get("by_model") is True),
    )
    run_id, found = _run_id(request), None
    began_as = call.principal or caller.principal.id
    if began_as != caller.principal.id:
        # The key of the principal was replaced since an earlier attempt, and its id with it.
        earlier = msgspec.structs.replace(request, principal=replace(caller.principal, id=began_as))
        known = _run_id(earlier)
        found = await gate.services.store.row(known)
        run_id = run_id if found is None else known
    gate.services.perform_also(run_id)
    if found is None and await gate.services.store.row(run_id) is None:
        await call.confirm()  # reading may have taken a while
        outcome = await _answered(gate, request)
        if isinstance(outcome, RefusedCall):
            return _failed(call, outcome.error)
        value = None if isinstance(outcome.reply, EventStream) else outcome.reply.value
        begun = value.execution_id if isinstance(value, ExecutionHandle | ExecutionResult) else None
        # The answer may be that of the run which continues ours: what counts is that the call began a run.
        is_ours = begun is not None and id_in_tenant(request.principal.tenant, begun) == run_id
        if not is_ours and (begun is None or await gate.services.store.row(run_id) is None):
            return _done(outcome.reply)
        if isinstance(value, ExecutionResult) and value.status == RunStatus.COMPLETED and value.output is not None:
            return _completed(value)  # the gate has shown it as its caller may see it
    return await _followed(gate, call, request, run_id)


async def _answered(gate: Gate, request: Request) -> Outcome:
    """Make a call. One whose claim was left behind by a process that died is made again when the claim times out."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 2 * limits.IDEMPOTENCY_IN_FLIGHT_MS / 1000
    while True:
        outcome = await gate.call(request)
        if not isinstance(outcome, RefusedCall) or outcome.error.code != _IN_FLIGHT or loop.time() > deadline:
            return outcome
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _key(call: ActivityCall) -> str:
    """Return the idempotency key of a visit. No caller can send a key with a space."""
    return f"node {call.run_id} {call.activity.node_id} {call.activity.visit}"


def _run_id(request: Request) -> str:
    """Return the stored id of the run that a call starts, or waits as, if it does either."""
    return id_in_tenant(request.principal.tenant, f"r_{idempotency.derived_id(request.principal, request)}")


async def _followed(gate: Gate, call: ActivityCall, request: Request, run_id: str) -> ActivityOutcome:
    """Wait for the run that a call started, or waits as, and return its result."""
    services = gate.services
    try:
        state = await _ended(services, call, run_id)
    except asyncio.CancelledError:
        await abandon_call(gate, call, run_id)
        raise
    if state is None:
        return ActivityError("the run of the call was deleted", "EXECUTION_NOT_FOUND", retryable=False)
    row = await services.store.row(run_id)
    if row is not None and HELD_LABEL in row.labels and state.status is RunStatus.COMPLETED:
        # The call was approved and made; what it started goes on by itself.
        made = msgspec.structs.replace(request, idempotency_key=held_key(run_id))
        started = _run_id(made)
        services.perform_also(started)
        if await services.store.row(started) is not None:
            return await _followed(gate, call, request, started)
        return ActivityDone(state.result, _trust(state))
    reply = await gate.shown(request, Reply(value=result_of(state.tenant, state)))
    value = reply.value
    if state.status is RunStatus.COMPLETED:
        return ActivityDone(plain_json(value.output), _trust(state))
    failure = state.failure
    message = failure.message if failure is not None else state.cancel_reason or "it was cancelled"
    code = failure.code if failure is not None else "CANCELLED"
    return ActivityError(call.masked(message), code, retryable=False, extra=_trust(state))


def _completed(result: ExecutionResult) -> ActivityDone:
    """Return the result of a call whose run has ended before the gate answered."""
    called: JsonObject = {"calledExecutionId": result.execution_id}
    extra: JsonObject = {**called, "untrusted": True} if result.untrusted else called
    return ActivityDone(plain_json(result.output), extra)


def _trust(state: RunState) -> JsonObject:
    called: JsonObject = {"calledExecutionId": id_for_callers(state.tenant, state.run_id)}
    return {**called, "untrusted": True} if state.untrusted else called


async def _ended(services: Services, call: ActivityCall, run_id: str) -> RunState | None:
    """Wait for the end of a run, or of the last one of its chain; return None if it is gone."""
    host = services.host
    state = await host.read(run_id)
    while state is not None and (not state.terminal or state.continuation is not None):
        call.only_waits()
        if state.continuation is not None:
            state = await host.read(await host.newest(state.run_id))
        else:
            # Not `wait_for_end`, which ends when the server stops: this wait is cancelled then, and begins again.
            state = await host.wait(state.run_id, after_seq=state.seq, timeout_seconds=_WAIT_SECONDS)
    return state


def _done(reply: Reply[Any] | EventStream) -> ActivityOutcome:
    """Return the answer of a call for the history. One with a secret is not stored."""
    if isinstance(reply, EventStream):
        return ActivityError("the call answers with a stream, which a node cannot read", "TOOL_CALL_INVALID", False)
    if reply.kept is not None:
        return ActivityDone({"withheld": True})
    return ActivityDone(plain_json(reply.value))


def _told(error: PenstockError) -> str:
    """Return a refusal with all that is wrong: a reader of a node's error has its text only."""
    listed = error.details.get("errors")
    found = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    if len(found) < 2:  # noqa: PLR2004  # the message has one
        hint = None if found else error.hint
        return f"{error.message}; {hint}" if hint else error.message
    named = "; ".join(f"{item.get('pointer') or '/'} {item.get('message')}" for item in found[:_MISTAKES_TOLD])
    more = f"; and {len(found) - _MISTAKES_TOLD} more" if len(found) > _MISTAKES_TOLD else ""
    return f"{error.message.partition(':')[0]}: {named}{more}"


def _failed(call: ActivityCall, error: PenstockError) -> ActivityError:
    return ActivityError(call.masked(_told(error)), error.code, retryable=error.code in _PASSING)

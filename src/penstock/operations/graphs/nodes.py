"""What `query` nodes do: calls through the gate, with the authority of the starter of the run.

The rights are looked up for each attempt, and narrowed to graphs: a key or token that was revoked reads nothing any
more. A run of a schedule or a webhook acts for its maker. The
surface of the call is `run`, so that policies can permit to a workflow what its starter may not do directly. The
idempotency key of the call is derived from the visit: an attempt that is repeated after a crash does not change the
graph twice. A call that has to be approved is a draft, and the node waits for it: it is made at most once, and only
while the node still waits. If it does not wait any more, the draft is cancelled.

Above it: `app` performs `query` nodes with `run_query_node`. Below it: the gate, `permissions.run_principals`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec

from penstock.base.errors import NotFound, PenstockError
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonObject
from penstock.base.scopes import scope_allows
from penstock.engine.transitions import RunStatus
from penstock.engine.values import plain_json
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import NodeVisit, Principal, Request, Services
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.permissions.abandoned_calls import abandon_call
from penstock.operations.permissions.run_principals import rights_of_run
from penstock.operations.permissions.weaker import narrow_to_authors
from penstock.operations.runs.held_calls import HELD_LABEL
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.stored_queries.capabilities import query_capability_name
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.chains import TRUST_LABEL

__all__ = ["run_query_node"]

_LOOK_SECONDS = 30.0
_RUN_QUERY = "graph.query_run"
_SCOPES = ("graph:run", "graph:read", "graph:write")
_OPERATIONS = {
    "create_branch": "graph.branches_create",
    "diff": "graph.diff",
    "merge": "graph.branches_merge",
}


async def run_query_node(gate: Gate, call: ActivityCall) -> ActivityOutcome:
    """Make the call that a `query` node describes, and return its outcome."""
    config, arguments = call.activity.config, call.activity.arguments
    given = arguments if isinstance(arguments, dict) else {}
    operation, said = _call_of(str(config.get("graph")), config, given)
    try:
        request = Request(
            operation=operation,
            arguments=said,
            principal=await _principal(gate.services, call),
            surface="run",
            request_id=gate.services.new_id(),
            idempotency_key=_key(call),
            visit=NodeVisit(
                run_id=call.run_id,
                node_id=call.activity.node_id,
                visit=call.activity.visit,
                by_model=TRUST_LABEL in (call.labels or {}),
            ),
        )
        draft = await _draft_of(gate.services, request)
        if draft is not None:
            return await _decided(gate, call, draft)
        outcome = await gate.call(request)
    except PenstockError as error:
        return _failed(error)
    if isinstance(outcome, RefusedCall):
        return _failed(outcome.error)
    reply = outcome.reply
    if isinstance(reply, EventStream):
        raise TypeError("operations on graphs do not answer with streams")
    if isinstance(reply.value, ExecutionResult):
        return await _decided(gate, call, id_in_tenant(call.tenant, reply.value.execution_id))
    return ActivityDone(plain_json(reply.value))


def _call_of(graph_id: str, config: JsonObject, given: JsonObject) -> tuple[str, JsonObject]:
    """Return the operation that a node means, and its arguments."""
    for name, operation in _OPERATIONS.items():
        if name in config:
            said = given.get(name)
            more: JsonObject = {} if "if_graph_commit" not in given else {"if_graph_commit": given["if_graph_commit"]}
            return operation, {**(said if isinstance(said, dict) else {}), **more, "graph_id": graph_id}
    options: JsonObject = {name: value for name, value in given.items() if value is not None}
    return _RUN_QUERY, {**options, "graph_id": graph_id, "name": str(config.get("query"))}


async def _principal(services: Services, call: ActivityCall) -> Principal:
    """Return the principal that the run acts for, with the rights on graphs that they have now."""
    state = await services.host.read(call.run_id)
    if state is None:
        raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {call.run_id}")
    found = await narrow_to_authors(services, await rights_of_run(services, state), call.run_id)
    kept = frozenset(scope for scope in _SCOPES if scope_allows(found.scopes, scope))
    return replace(found, scopes=kept)


async def _draft_of(services: Services, request: Request) -> str | None:
    """Return the run that holds the call of an earlier attempt of the same visit; None if none does.

    It is found by its id, which comes from the key: the answer of the call is not kept for as long as a draft may wait.
    """
    said, operation = request.arguments, request.operation
    if operation == _RUN_QUERY:
        operation = query_capability_name(str(said.get("graph_id")), str(said.get("name")))
    derived = idempotency.derived_id(request.principal, msgspec.structs.replace(request, operation=operation))
    run_id = id_in_tenant(request.principal.tenant, f"r_{derived}")
    row = await services.store.row(run_id)
    return run_id if row is not None and HELD_LABEL in row.labels else None


def _key(call: ActivityCall) -> str:
    """Return the idempotency key of a visit. No caller can send a key with a space."""
    return f"query {call.run_id} {call.activity.node_id} {call.activity.visit}"


def _failed(error: PenstockError) -> ActivityError:
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    # A store that is busy, or a limit, may let it through later; anything else stays refused.
    return ActivityError(message, error.code, retryable=error.code in ("BRANCH_BUSY", "RATE_LIMITED", "STORE_BUSY"))


async def _decided(gate: Gate, call: ActivityCall, draft: str) -> ActivityOutcome:
    """Wait until a held call is decided, and return its outcome. A retry would find the same."""
    host = gate.services.host
    call.only_waits()
    try:
        state = await host.read(draft)
        while state is not None and not state.terminal:
            # Not `wait_for_end`, which ends when the server stops: this wait is cancelled then, and begins again.
            state = await host.wait(draft, after_seq=state.seq, timeout_seconds=_LOOK_SECONDS)
    except asyncio.CancelledError:
        await abandon_call(gate, call, draft)
        raise
    if state is None:
        return ActivityError("the draft of the call is gone", "DRAFT_NOT_FOUND", retryable=False)
    if state.status is RunStatus.COMPLETED:
        return ActivityDone(state.result)
    failure = state.failure
    code, why = ("DRAFT_CANCELLED", state.cancel_reason) if failure is None else (failure.code, failure.message)
    named, why = id_for_callers(call.tenant, draft), why or "it was cancelled"
    message = f"the call waited for approval ({named}) and was not made: {why}"
    return ActivityError(message, code, retryable=False)

"""What `query` nodes do: calls through the gate, with the authority of whoever started the run.

The rights are looked up for each attempt, and narrowed to graphs: a key or token that was revoked reads nothing any
more. A run of a schedule or a webhook acts for whoever made that. The
surface of the call is `run`, so that policies can permit to a workflow what its starter may not do directly. The
idempotency key of the call is derived from the visit: an attempt that is repeated after a crash does not change the
graph twice. A call that waits for approval is waited for.

Above it: `app` performs `query` nodes with `run_query_node`. Below it: the gate, `permissions.run_principals`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from penstock.base.errors import NotFound, PenstockError
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import scope_allows
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.context import Principal, Request, Services
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.permissions.run_principals import rights_of_run
from penstock.operations.runs.results import ExecutionResult
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.run_handle import Run

__all__ = ["run_query_node"]

_SCOPES = ("graph:run", "graph:read", "graph:write")
_OPERATIONS = {
    "create_branch": "graph.branches_create",
    "diff": "graph.diff",
    "merge": "graph.branches_merge",
}


async def run_query_node(gate: Gate, call: ActivityCall) -> ActivityOutcome:
    """Make the call that a `query` node describes, and return what came of it."""
    config, arguments = call.activity.config, call.activity.arguments
    given = arguments if isinstance(arguments, dict) else {}
    operation, said = _call_of(str(config.get("graph")), config, given)
    try:
        principal = await _principal(gate.services, call)
        outcome = await gate.call(
            Request(
                operation=operation,
                arguments=said,
                principal=principal,
                surface="run",
                request_id=gate.services.new_id(),
                idempotency_key=_key(call),
            )
        )
    except PenstockError as error:
        return _failed(error)
    if isinstance(outcome, RefusedCall):
        return _failed(outcome.error)
    return await _done(gate, call, outcome.reply)


def _call_of(graph_id: str, config: JsonObject, given: JsonObject) -> tuple[str, JsonObject]:
    """Return the operation that a node means, and its arguments."""
    for name, operation in _OPERATIONS.items():
        if name in config:
            said = given.get(name)
            more: JsonObject = {} if "if_graph_commit" not in given else {"if_graph_commit": given["if_graph_commit"]}
            return operation, {**(said if isinstance(said, dict) else {}), **more, "graph_id": graph_id}
    options: JsonObject = {name: value for name, value in given.items() if value is not None}
    return "graph.query_run", {**options, "graph_id": graph_id, "name": str(config.get("query"))}


async def _principal(services: Services, call: ActivityCall) -> Principal:
    """Return whoever the run acts for, with the rights on graphs that they have now."""
    state = await services.host.read(call.run_id)
    if state is None:
        raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {call.run_id}")
    found = await rights_of_run(services, state)
    kept = frozenset(scope for scope in _SCOPES if scope_allows(found.scopes, scope))
    return replace(found, scopes=kept)


def _key(call: ActivityCall) -> str:
    """Return the idempotency key of a visit. No caller can send a key with a space."""
    return f"query {call.run_id} {call.activity.node_id} {call.activity.visit}"


def _failed(error: PenstockError) -> ActivityError:
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    # A store that is busy, or a limit, may let it through later; anything else stays refused.
    return ActivityError(message, error.code, retryable=error.code in ("BRANCH_BUSY", "RATE_LIMITED", "STORE_BUSY"))


async def _done(gate: Gate, call: ActivityCall, reply: Reply[Any] | EventStream) -> ActivityOutcome:
    if isinstance(reply, EventStream):
        raise TypeError("operations on graphs do not answer with streams")
    value = reply.value
    if isinstance(value, ExecutionResult):
        return await _approved(gate, call, value)
    result: JsonValue = msgspec.to_builtins(value)
    return ActivityDone(result)


async def _approved(gate: Gate, call: ActivityCall, held: ExecutionResult) -> ActivityOutcome:
    """Wait until a call that was held is decided, and return what came of it."""
    services = gate.services
    run = Run(id_in_tenant(call.tenant, held.execution_id), services.host, services.new_id)
    try:
        return ActivityDone(await run.result())
    except PenstockError as error:
        return _failed(error)

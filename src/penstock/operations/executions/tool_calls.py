"""The internal call that asks whether a node of a run may call an imported tool, where policies decide about it.

The principal is the process, acting for the starter of the run, as with child runs. It decides and calls nothing: the
executor makes the call if it is permitted. A call of the tool by itself, which is a small run too, was decided when it
was made. Policies cannot name the tools of servers that are not imported, so nothing decides about those.

Above it: `app`, which asks before it calls a tool. Below it: `runs.start_policies`, `permissions.run_principals`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context, Services
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policies.history import run_tree_of
from penstock.operations.gate.policy_stage import target_of
from penstock.operations.permissions.run_principals import principal_of_run, run_caller
from penstock.operations.permissions.starting import UPSTREAM_RUN_SCOPE
from penstock.operations.permissions.weaker import narrow_to_authors
from penstock.operations.runs.imported_tools import CALLED_LABEL, imported_tools
from penstock.operations.runs.start_policies import RunAction, run_denial
from penstock.runtime.activities.performing import ActivityCall, ActivityError

__all__ = ["CALL_TOOL", "OPERATIONS", "DecideToolCall", "decide_tool_calls_through"]

CALL_TOOL = "execution.call_tool"
DecideToolCall: TypeAlias = Callable[[ActivityCall], Awaitable[ActivityError | None]]
"""Says why a node may not call a tool; None if it may."""
_FINAL = (Conflict, Denied, NotFound, Rejected)


class CallTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node of which run, by the id that it is stored under, calls which tool with what."""

    execution_id: str
    node_id: str
    server: str
    tool: str
    arguments: dict[str, Any]
    repeated: bool = False
    """Whether the same attempt continues after a question, and was counted when it began."""


class ToolPermitted(msgspec.Struct, frozen=True, kw_only=True):
    """The action that is permitted; None if no policy can name the tool."""

    action: str | None


@operation(CALL_TOOL, route=None, scopes=(UPSTREAM_RUN_SCOPE,), open_world=True, risk="medium", subject="execution_id")
async def execution_call_tool(context: Context, given: CallTool) -> ToolPermitted:
    """Decide whether a node of a run may call an imported tool, for the principal of the run."""
    services = context.services
    state, row = await services.host.read(given.execution_id), await services.store.row(given.execution_id)
    if state is None or row is None or state.tenant != context.tenant:
        raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {given.execution_id}")
    capability = await _imported(services, context.tenant, given.server, given.tool)
    if capability is None:
        return ToolPermitted(action=None)
    root = await run_tree_of(services.store, state.run_id)
    first = await services.store.row(root)
    principal = await principal_of_run(services, state, row.workflow_name if first is None else first.workflow_name)
    principal = await narrow_to_authors(services, principal, state.run_id)
    action = RunAction(
        target=target_of(capability, given.arguments),
        arguments=given.arguments,
        words=f"calling {capability.name}",
        run=root,
        labels=row.labels,
        was_made=given.repeated,
    )
    denial = await run_denial(context, principal, action)
    if denial is not None:
        raise denial
    return ToolPermitted(action=capability.policy_action.name)


async def _imported(services: Services, tenant: str, server: str, tool: str) -> Capability | None:
    tools = (await imported_tools(services, tenant)).tools.values()
    named = (item for item in tools if (item.metadata.get("server"), item.metadata.get("upstream")) == (server, tool))
    return next(named, None)


def decide_tool_calls_through(gate: Gate) -> DecideToolCall:
    """Return the function that is asked before a node calls a tool: a call through the gate, where there are policies.

    A tool that is not accepted has no action; the executor refuses it.
    """

    async def decide(call: ActivityCall) -> ActivityError | None:
        services, config = gate.services, call.activity.config
        server, tool, given = config.get("server"), config.get("tool"), call.activity.arguments
        arguments = config.get("arguments") or {} if given is None else given
        if not isinstance(server, str) or not isinstance(tool, str) or not isinstance(arguments, dict):
            return None  # the executor says what is wrong
        upstreams, stage = services.upstreams, services.policies
        if stage is None or upstreams is None or server not in upstreams.rules_for(call.tenant):
            return None
        if await stage.of(call.tenant) is None:
            return None
        row = await services.store.row(call.run_id)
        if row is not None and row.labels.get(CALLED_LABEL) == call.run_id:
            return None
        asked: JsonObject = {
            "execution_id": call.run_id,
            "node_id": call.activity.node_id,
            "server": server,
            "tool": tool,
            "arguments": arguments,
            "repeated": call.activity.round > 0,
        }
        principal = run_caller(call.tenant, call.principal, UPSTREAM_RUN_SCOPE)
        try:
            await internal_call(gate, principal, CALL_TOOL, asked)
        except _FINAL as error:
            return _refused(call, error, retryable=False)
        except PenstockError as error:  # it is not known whether the call is permitted
            return _refused(call, error, retryable=True)
        return None

    return decide


def _refused(call: ActivityCall, error: PenstockError, *, retryable: bool) -> ActivityError:
    return ActivityError(call.masked(error.message), error.code, retryable=retryable)


OPERATIONS: tuple[Capability, ...] = (execution_call_tool,)

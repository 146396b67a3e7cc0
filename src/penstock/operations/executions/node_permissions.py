"""The internal call that asks whether a node of a run may reach a host, a model or an agent, where policies decide.

The principal is the process, acting for the starter of the run, as with child runs and imported tools. It decides and
reaches nothing: the executor does, directly after it was permitted. An `http` node asks again for every redirect that
it follows. Where the policies permit the action to everybody, nothing is called and nothing is recorded.

Above it: `app`, which lets executors ask. Below it: `runs.actions.nodes`, `runs.start_policies`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policies.history import run_tree_of
from penstock.operations.permissions.run_principals import principal_of_run, run_caller
from penstock.operations.permissions.starting import RUN_SCOPE
from penstock.operations.permissions.weaker import narrow_to_authors
from penstock.operations.runs.actions.nodes import NODE_ACTIONS, NodeType, node_target
from penstock.operations.runs.start_policies import RunAction, run_denial
from penstock.runtime.activities.performing import ActivityCall, ActivityError, NodeAction, NodePolicy

__all__ = ["OPERATIONS", "REACH", "decide_nodes_through"]

REACH = "execution.reach"
_FINAL = (Conflict, Denied, NotFound, Rejected)


class Reach(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which node of which run, by the id that it is stored under, reaches what."""

    execution_id: str
    node_id: str
    node_type: NodeType
    facts: dict[str, Any]
    repeated: bool = False
    """Whether the same attempt continues after a question, and was counted when it began."""


class ReachPermitted(msgspec.Struct, frozen=True, kw_only=True):
    """The action that is permitted."""

    action: str


@operation(REACH, route=None, scopes=(RUN_SCOPE,), open_world=True, risk="medium", subject="execution_id")
async def execution_reach(context: Context, given: Reach) -> ReachPermitted:
    """Decide whether a node of a run may reach a host, a model or an agent, for the principal of the run."""
    services = context.services
    state, row = await services.host.read(given.execution_id), await services.store.row(given.execution_id)
    if state is None or row is None or state.tenant != context.tenant:
        raise NotFound("EXECUTION_NOT_FOUND", f"there is no run {given.execution_id}")
    root = await run_tree_of(services.store, state.run_id)
    first = await services.store.row(root)
    principal = await principal_of_run(services, state, row.workflow_name if first is None else first.workflow_name)
    principal = await narrow_to_authors(services, principal, state.run_id)
    arguments: JsonObject = {**given.facts, "node": given.node_id, "workflow": row.workflow_name}
    target = node_target(given.node_type, arguments)
    action = RunAction(
        target=target,
        arguments=arguments,
        words=NODE_ACTIONS[given.node_type].words.format(target.resource_id),
        run=root,
        labels=row.labels,
        was_made=given.repeated,
    )
    denial = await run_denial(context, principal, action)
    if denial is not None:
        raise denial
    return ReachPermitted(action=target.action.name)


def decide_nodes_through(gate: Gate) -> NodePolicy:
    """Return what executors ask before they reach something: a call through the gate, where policies may refuse it."""

    async def decide(call: ActivityCall, action: NodeAction) -> ActivityError | None:
        stage = gate.services.policies
        policies = None if stage is None else await stage.of(call.tenant)
        if policies is None or policies.always_permits(NODE_ACTIONS[call.activity.node_type].action):
            return None
        asked: JsonObject = {
            "execution_id": call.run_id,
            "node_id": call.activity.node_id,
            "node_type": call.activity.node_type,
            "facts": action.facts,
            "repeated": call.activity.round > 0,
        }
        try:
            await internal_call(gate, run_caller(call.tenant, call.principal, RUN_SCOPE), REACH, asked)
        except _FINAL as error:
            return ActivityError(call.masked(error.message), error.code, retryable=False)
        except PenstockError as error:  # it is not known whether it is permitted
            return ActivityError(call.masked(error.message), error.code)
        return None

    return decide


OPERATIONS: tuple[Capability, ...] = (execution_reach,)

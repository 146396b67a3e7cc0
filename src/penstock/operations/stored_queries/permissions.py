"""What else a call on a graph needs beside being called: the operations that it includes, and approval.

A stored mutation is decided twice: as a query that is invoked, then as a change of its graph on a branch. A load that
forks a branch needs the right to create one. Each is decided as if it were called by itself: by scopes, then by
policies. A change of a protected branch waits until somebody has approved it.

Above it: the operations on graphs, `running`. Below it: the gate's stages for policies and holds.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.base.json import JsonObject
from penstock.governance.holds import Approval
from penstock.governance.policy.outcomes import ApprovalRequired
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.authorization import scope_refusal
from penstock.operations.gate.context import Context
from penstock.operations.gate.holds import HoldRequired, facts_of, is_approved, policy_approvals
from penstock.operations.gate.policy_check import policy_refusal, reasons_for_audit
from penstock.operations.gate.policy_stage import Counting, target_of
from penstock.operations.stored_queries.definitions import stored_definition

__all__ = ["branch_approvals", "included_call"]


async def included_call(context: Context, operation: str, arguments: JsonObject) -> None:
    """Refuse a call that includes an operation which its caller may not call with these arguments.

    Raise `HoldRequired` if policies want that approved. Calls of the process itself were decided before.
    """
    capability = _operation(context, operation)
    services, principal, request = context.services, context.principal, context.request
    refusal = scope_refusal(services, capability, principal)
    if refusal is not None:
        raise refusal
    stage = services.policies
    policies = None if stage is None or request.from_inside else await stage.of(principal.tenant)
    if stage is None or policies is None:
        return
    target = target_of(capability, arguments)
    standpoint = request.standpoint
    if policies.counters:
        only_looks = request.intent is not None and request.intent.only_look
        counting = Counting(uses=None if only_looks else context.call.uses)
        history = await stage.history(policies, principal, target, arguments, counting)
        standpoint = replace(standpoint, history=history)
    decided = stage.decide_action(policies, principal, target, arguments, standpoint)
    known = context.call.noted.get("reasons") or ()
    context.call.note(reasons=(*known, *(reasons_for_audit(decided) or ())), policy_version=decided.version)
    if isinstance(decided.outcome, ApprovalRequired):
        if is_approved(request, decided) or context.rehearses:  # that it waits was decided before its rehearsal
            return
        if request.approval is None:
            await _hold(context, capability, policy_approvals(decided))
    denied = policy_refusal(operation, principal, decided)
    if denied is not None:
        raise denied


async def branch_approvals(context: Context, graph_id: str, branch: str) -> tuple[Approval, ...]:
    """Return whose approval a change of a branch needs: somebody's, if the branch is protected."""
    definition, _ = await stored_definition(context.services, context.tenant, graph_id)
    return (context.services.holds.approval,) if branch in definition.protected_branches else ()


async def _hold(context: Context, capability: Capability, asked: tuple[Approval, ...]) -> None:
    if context.holds is None or context.request.from_inside or not context.capability.governance.holdable:
        return
    hold = await context.holds.hold_of(context, facts_of(context.request, capability.governance), asked)
    if hold is not None:
        raise HoldRequired(hold, capability.governance)


def _operation(context: Context, name: str) -> Capability:
    catalogue = context.services.catalogue
    found = None if catalogue is None else next((item for item in catalogue.all() if item.name == name), None)
    if found is None:
        raise TypeError(f"there is no operation {name}")
    return found

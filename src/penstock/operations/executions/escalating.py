"""The internal call with which the timer of an approval asks others, once nobody has decided in time.

The run itself says when and whom (`engine.approvers.escalated`); this call only fires its timer, so that the audit
record of who may decide from now on is stored with it. The principal is `system:approvals`, in the tenant of the run.

Above it: `app` gives the driver `escalate_through`. Below it: the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import id_for_callers
from penstock.engine.approvers import approvers_of, escalated
from penstock.engine.inputs import FireTimer
from penstock.engine.outcomes import Refused
from penstock.engine.walk.questions import interrupt_id_of, open_questions
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.run_handle import refusal_error

__all__ = ["OPERATIONS", "escalate_through"]

_ESCALATE = "execution.escalate"


class EscalateQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which question of which run, and when its timer fired."""

    execution_id: str
    run_id: str
    node_id: str
    visit: int
    at: int


class Escalated(msgspec.Struct, frozen=True, kw_only=True):
    """The question, and who may answer it now."""

    interrupt_id: str
    groups: list[str]
    users: list[str]


@operation(_ESCALATE, route=None, scopes=("execution:write",), risk="medium", subject="execution_id")
async def execution_escalate(context: Context, given: EscalateQuestion) -> Escalated:
    """Ask others, because an approval was not decided in time."""
    host = context.services.host
    state = await host.read(given.run_id)
    interrupt_id = interrupt_id_of(given.node_id, given.visit)
    asked = [] if state is None else [item for item in open_questions(state) if item.interrupt_id == interrupt_id]
    following = approvers_of(escalated(asked[0].approvers)) if asked else None
    if following is None:
        raise Conflict("TIMER_NOT_FOUND", f"{interrupt_id} of {given.execution_id} is not open any more")
    told = Escalated(interrupt_id=interrupt_id, groups=[*following.groups], users=[*following.users])
    context.call.note(run_id=given.execution_id)
    context.call.about(None, interrupt_id=interrupt_id, groups=[*told.groups], users=[*told.users])
    fired = FireTimer(at=given.at, kind="escalation", node_id=given.node_id, visit=given.visit)
    decision = await host.send(given.run_id, fired, tenant=context.tenant, call=context.call)
    if isinstance(decision, Refused):
        raise refusal_error(decision)
    return told


def escalate_through(gate: Gate) -> Callable[[str, str, FireTimer], Awaitable[bool]]:
    """Return the function with which timers escalate approvals: a call through the gate."""

    async def escalate(tenant: str, run_id: str, given: FireTimer) -> bool:
        approvals = system_principal("approvals", "execution:write", tenant=tenant)
        try:
            await internal_call(
                gate,
                approvals,
                _ESCALATE,
                {
                    "execution_id": id_for_callers(tenant, run_id),
                    "run_id": run_id,
                    "node_id": given.node_id,
                    "visit": given.visit,
                    "at": given.at,
                },
            )
        except (Conflict, NotFound):
            return False  # it was answered at the same moment
        return True

    return escalate


OPERATIONS: tuple[Capability, ...] = (execution_escalate,)

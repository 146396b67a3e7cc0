"""The internal call that puts on record that a task was cancelled at an outside agent, or could not be.

A run that ends while an agent waits for an answer leaves a task behind. The executor cancels it; the history of the run
takes no more records by then, so the audit trail has it, in the name of the principal that the run acts for.

Above it: `app`, which reports every withdrawal. Below it: the gate.
"""

from __future__ import annotations

import msgspec

from penstock.base.errors import PenstockError, Unavailable
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.run_principals import run_caller
from penstock.operations.permissions.starting import RUN_SCOPE
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, Withdrawn

__all__ = ["OPERATIONS", "WITHDRAW", "record_withdrawals_through"]

WITHDRAW = "execution.withdraw"


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node of a run, by its stored id, that left a task behind, and how the task ended."""

    execution_id: str
    node_id: str
    agent: str
    error: str | None = None
    """Why the agent could not be informed."""


class TaskWithdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """The agent whose task was cancelled."""

    agent: str


@operation(WITHDRAW, route=None, scopes=(RUN_SCOPE,), subject="execution_id", errors=("TASK_NOT_WITHDRAWN",))
async def execution_withdraw(context: Context, given: Withdrawal) -> TaskWithdrawn:
    """Put on record whether the task of an outside agent was cancelled after its run had ended."""
    if given.error is not None:
        raise Unavailable("TASK_NOT_WITHDRAWN", given.error, "cancel the task at the agent")
    return TaskWithdrawn(agent=given.agent)


def record_withdrawals_through(gate: Gate) -> Withdrawn:
    """Return the receiver of every withdrawal: a call through the gate, which records it."""

    async def record(call: ActivityCall, outcome: ActivityOutcome) -> None:
        named = (call.activity.delegate or {}).get("agentId")
        told = {"execution_id": call.run_id, "node_id": call.activity.node_id, "agent": str(named)}
        if isinstance(outcome, ActivityError):
            told["error"] = f"{outcome.code}: {outcome.error}"
        try:
            await internal_call(gate, run_caller(call.tenant, call.principal, RUN_SCOPE), WITHDRAW, {**told})
        except PenstockError:
            return  # the refusal is the record

    return record


OPERATIONS: tuple[Capability, ...] = (execution_withdraw,)

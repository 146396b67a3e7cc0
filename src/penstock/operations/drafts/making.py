"""Making a held call: what the run of an approved call does, and the workflow that it runs.

The call goes through the gate again, as the principal that made it, with the authority that this principal has now. The
gate checks directly before the effect that it is the call that was approved. Its idempotency key is derived from the
run, so that a call whose outcome was lost is not made twice, even if a person decides to try again. If the process
dies meanwhile, the next one repeats the call with its key, as any caller would: the gate knows what was done.

Above it: `app` performs the activities of held calls with `make_held_call`. Below it: the gate, `runs.held_calls`.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, PenstockError
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.approvers import Identity, identity_of_vote, is_same_person
from penstock.engine.records import commands, events
from penstock.engine.state import RunState
from penstock.engine.transitions import Phase
from penstock.engine.values import plain_json
from penstock.governance.holds import Approval
from penstock.governance.intents import ApprovalVote
from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import ApprovedCall, Context, Request, Surface, WriteIntent
from penstock.operations.gate.holds import reach_in
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.runs.held_calls import (
    DEFINE_HELD,
    HELD_OWNER,
    Define,
    HeldCall,
    approval_id,
    held_call_of,
    held_key,
    held_workflow,
    opened_arguments,
)
from penstock.operations.runs.results import ExecutionResult
from penstock.runtime.activities.performing import ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.ports.platform import Finished, IdempotencyClaim
from penstock.runtime.tables.call_records import find_call

__all__ = ["OPERATIONS", "WITHHELD", "define_through", "make_held_call", "withheld_result"]

WITHHELD: JsonObject = {"withheld": True}
"""What stands in a history for an answer with a secret. Its caller gets the answer with `draft.get`."""


class DefineHeld(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls, and who approves them."""

    operation: str
    approvals: list[Approval]
    timeout_ms: Annotated[int, Meta(ge=1)]


class Defined(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is stored."""

    hash: str


@operation(DEFINE_HELD, route=None, scopes=("workflow:write",), subject="operation")
async def define_held(context: Context, given: DefineHeld) -> Defined:
    """Store the workflow that held calls of a capability run."""
    workflow = held_workflow(given.operation, tuple(given.approvals), given.timeout_ms)
    context.call.about(None, hash=workflow.hash)
    await context.services.host.register(
        workflow, tenant=HELD_OWNER, created_by=context.principal.id, call=lambda row: context.call
    )
    return Defined(hash=workflow.hash)


def define_through(gate: Gate) -> Define:
    """Return how the workflow of held calls is stored: with a call through the gate."""

    async def define(tenant: str, arguments: JsonObject) -> Any:
        drafts = system_principal("drafts", "workflow:write", tenant=tenant)
        return await internal_call(gate, drafts, DEFINE_HELD, arguments)

    return define


async def make_held_call(gate: Gate, run_id: str) -> ActivityOutcome:
    """Make the call that a run holds, and return its outcome. A process that died may have begun it."""
    services = gate.services
    state = await services.host.read(run_id)
    held = None if state is None else held_call_of(state, services.pepper)
    if state is None or held is None:
        message = "this run holds no call that this server has sealed"
        return ActivityError(message, "HELD_CALL_INVALID", retryable=False)
    try:
        await _check_visit(gate, held)
        principal = await gate.authenticator.current(held.principal.principal(state.tenant))
        request = await _request(gate, state, held, principal)
    except PenstockError as error:
        return _failed(error)
    outcome = await gate.call(request)
    if isinstance(outcome, RefusedCall):
        return _failed(outcome.error)
    return _done(outcome.reply)


async def _check_visit(gate: Gate, held: HeldCall) -> None:
    """Refuse a call of a node whose visit is over: its run was cancelled, timed out or went another way."""
    visit = held.visit
    if visit is None:
        return
    state = await gate.services.host.read(visit.run_id)
    waits = state is not None and any(
        item.key == (visit.node_id, visit.visit) and item.phase is Phase.REQUESTED for item in state.activations()
    )
    if not waits:
        message = "the run that made the call no longer waits for it"
        raise Conflict(
            "HELD_CALL_UNWANTED", message, "start the run again if you still want the call; nothing was done"
        )


async def _request(gate: Gate, state: RunState, held: HeldCall, principal: Principal) -> Request:
    return Request(
        operation=held.operation,
        arguments=await opened_arguments(gate.services, state.tenant, held),
        principal=principal,
        surface=_surface(held.surface),
        request_id=held.request_id,
        idempotency_key=held_key(state.run_id),
        patience_seconds=limits.HELD_CALL_WAIT_SECONDS,
        visit=held.visit,
        intent=WriteIntent(justification=held.justification) if held.justification is not None else None,
        approval=ApprovedCall(
            draft_id=(draft_id := id_for_callers(state.tenant, state.run_id)),
            approval_id=approval_id(draft_id),
            digest=held.digest,
            expires_at=held.expires_at,
            votes=await _read_votes(gate, state.run_id),
            reach=reach_in(held.state_witness),
        ),
    )


def _surface(name: str) -> Surface:
    found: Surface = next(known for known in get_args(Surface) if known == name)
    return found


async def _read_votes(gate: Gate, run_id: str) -> tuple[ApprovalVote, ...]:
    """Return who approved, in the order of their votes. Votes of one person, with several keys, count as one."""
    found: list[ApprovalVote] = []
    people: list[tuple[Identity, str]] = []
    for record in await gate.services.host.history(run_id):
        body = record.body_as(commands.ResumeInterrupt) or record.body_as(events.InterruptVoted)
        if body is None:
            continue
        principal, approver = body.answered_by or "unknown", body.approver or {}
        who = identity_of_vote({**approver, "by": principal})
        person = next((known for earlier, known in people if is_same_person(who, earlier)), principal)
        people.append((who, person))
        groups = approver.get("groups")
        listed = frozenset(str(group) for group in groups) if isinstance(groups, list) else frozenset[str]()
        found.append(ApprovalVote(principal=principal, person=person, groups=listed))
    return tuple(found)


def _failed(error: PenstockError) -> ActivityError:
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    return ActivityError(message, error.code, retryable=False)


def _done(reply: Reply[Any] | EventStream) -> ActivityOutcome:
    """Return the result of a call for the history. An answer with a secret is not stored: its caller can fetch it."""
    if isinstance(reply, EventStream):
        return ActivityError("the call answers with a stream, which nobody reads", "HELD_CALL_INVALID", retryable=False)
    if reply.kept is not None:
        return ActivityDone({"result": dict(WITHHELD)})
    value = reply.value
    if isinstance(value, ExecutionResult):
        if value.status in ("failed", "cancelled"):
            error = value.error
            message = error.message if error is not None else f"the run {value.execution_id} {value.status}"
            return ActivityError(message, error.code if error is not None else "EXECUTION_FAILED", retryable=False)
        if value.status == "completed":
            return ActivityDone({"result": plain_json(value.output), "execution_id": value.execution_id})
    result: JsonValue = plain_json(value)
    return ActivityDone({"result": result})


async def withheld_result(context: Context, run_id: str, held: HeldCall) -> JsonValue:
    """Return the answer of a call that was made, for its caller, if no history may hold it; None if it is gone.

    It is kept as long as the answers of calls with idempotency keys are.
    """
    services, now = context.services, context.now_ms()
    claim = IdempotencyClaim(
        tenant=context.tenant,
        principal=held.principal.id,
        operation=held.operation,
        key=held_key(run_id),
        digest="",
        now=now,
        in_flight_until=now,
        keep_until=now,
    )
    known = await find_call(services.platform, claim)
    catalogue = services.catalogue.all() if services.catalogue is not None else ()
    capability = next((item for item in catalogue if item.name == held.operation), None)
    if not isinstance(known, Finished) or capability is None or capability.repeat is None:
        return None
    kept = known.answer.get("value")
    return capability.repeat(services, kept) if isinstance(kept, dict) else None


OPERATIONS: tuple[Capability, ...] = (define_held,)

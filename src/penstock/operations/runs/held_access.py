"""Who may see and change a held call, whichever operation names it: as a draft or as the run that holds it.

An agent knows of its own held calls and of those of other keys of its app; for it, others do not exist. Only the caller
who made the call, or may approve it, withdraws it. Operations on runs let people do more, since `execution:control` is
the right to stop whatever runs; they never let an agent, or a model that calls for somebody, do more.

Above it: `handles`, through which every operation on runs finds its run; the operations on drafts, the control
plane. Below it: `held_calls`, `permissions.answering`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from penstock.base import limits
from penstock.base.errors import Denied
from penstock.base.ids import id_for_callers
from penstock.engine.state import RunState
from penstock.governance.principals import Principal
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.answering import may_approve
from penstock.operations.permissions.apps import app_id_of
from penstock.operations.runs.held_calls import HELD_LABEL, HeldCall, held_call_of, held_view
from penstock.operations.runs.results import ExecutionResult, HeldView
from penstock.operations.runs.starting import CALLER_LABEL
from penstock.operations.runs.waits import question_views
from penstock.runtime.ports.runs import RunQuery, RunRow

__all__ = [
    "may_see_held",
    "may_see_run",
    "refuse_settling",
    "refuse_withdrawing",
    "with_held_calls",
    "withdrawal_refusal",
    "without_unseen",
]

# While a node waits for a call that is held, this is the status of its run.
_WAITS = "waiting_activity"


def may_see_held(principal: Principal, held: HeldCall) -> bool:
    """Whether a caller may know of a held call: an agent of its own, and of those of other keys of its app."""
    if principal.kind != "agent" or principal.id == held.principal.id:
        return True
    app = app_id_of(principal.groups)
    return app is not None and app == app_id_of(held.principal.groups)


async def may_see_run(services: Services, principal: Principal, row: RunRow) -> bool:
    """Whether a caller may know of a run of its tenant: of every run that holds no call, and of some that do."""
    if principal.kind != "agent" or HELD_LABEL not in row.labels:
        return True
    state = await services.host.read(row.run_id)
    held = None if state is None else held_call_of(state)
    return held is not None and may_see_held(principal, held)


async def without_unseen(services: Services, principal: Principal, rows: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs of a list that a caller may know of."""
    if principal.kind != "agent":
        return list(rows)
    return [row for row in rows if await may_see_run(services, principal, row)]


async def with_held_calls(context: Context, result: ExecutionResult) -> ExecutionResult:
    """Return a result with the calls of the run that wait for approval, as far as the caller may know of them."""
    if result.status != _WAITS:
        return result
    services = context.services
    query = RunQuery(
        statuses=("waiting_approval", "waiting_input"),
        label=(CALLER_LABEL, result.execution_id),
        tenant=context.tenant,
        limit=limits.LLM_TOOL_CALLS_MAX,
    )
    found: list[HeldView] = []
    for row in (await services.host.list_runs(query)).rows:
        if HELD_LABEL not in row.labels or not await may_see_run(services, context.principal, row):
            continue
        state = await services.host.read(row.run_id)
        view = None if state is None or state.terminal else held_view(services, state)
        if view is not None:
            found.append(view)
    return msgspec.structs.replace(result, held_calls=found)


def withdrawal_refusal(context: Context, state: RunState, held: HeldCall) -> Denied | None:
    """Return why a caller may not withdraw a held call; None for its caller and its approvers."""
    if context.principal.id == held.principal.id:
        return None
    asked = question_views(state)
    if asked and may_approve(context, state, asked[0].approvers):
        return None
    message = f"the draft {id_for_callers(context.tenant, state.run_id)} was proposed by somebody else"
    return Denied("DRAFT_NOT_YOURS", message, "ask the proposer, or one of the approvers")


async def refuse_withdrawing(context: Context, row: RunRow) -> None:
    """Refuse an agent that would stop, or otherwise change, the run of a call that it may not withdraw."""
    if HELD_LABEL not in row.labels or not context.request.by_agent:
        return
    state = await context.services.host.read(row.run_id)
    held = None if state is None else held_call_of(state)
    refusal = None if state is None or held is None else withdrawal_refusal(context, state, held)
    if refusal is not None:
        raise refusal


def refuse_settling(context: Context, row: RunRow) -> None:
    """Refuse an agent that would report the unknown outcome of a held call, or have the call made again."""
    if HELD_LABEL in row.labels and context.request.by_agent:
        message = "only a person may settle the outcome of a held call"
        raise Denied(
            "PERSON_REQUIRED",
            message,
            "ask a person to check the outcome, and to settle it over REST or with `penstock runs submit`",
        )

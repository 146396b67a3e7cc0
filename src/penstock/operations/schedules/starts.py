"""The internal call with which the clock starts a run, on behalf of the maker of the schedule.

The principal is the schedule, and its permissions are those that the maker has now. A refusal is recorded in the audit
log and on the schedule.

Above it: `app`, which listens to the scheduler. Below it: `permissions.makers`, `runtime.schedules`.
"""

from __future__ import annotations

import msgspec

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, Rejected
from penstock.base.ids import id_for_callers
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.permissions.admission import admit_workflow
from penstock.operations.permissions.authorship import refuse_proposed
from penstock.operations.permissions.makers import (
    SCHEDULE,
    as_trigger,
    author_of_schedule,
    authority_of_schedule,
    check_maker,
    maker_id,
    rights_of_maker,
)
from penstock.operations.permissions.starting import RUN_SCOPE
from penstock.operations.runs.start_policies import refuse_by_policy
from penstock.runtime.ports.runs import ScheduleRow
from penstock.runtime.schedules.scheduler import Fire, FireOutcome, NotAllowed, Skipped, Started, scheduled_run_id

__all__ = ["OPERATIONS", "START", "fire_through"]

START = "schedule.start"
# Retrying does not help with these; after any other error the start is tried again at the next tick.
_FINAL = (Conflict, Denied, LimitExceeded, NotFound, Rejected)


class StartScheduled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedule is due, by the id that it is stored under, and for which moment."""

    schedule_id: str
    mark: str


class ScheduledRun(msgspec.Struct, frozen=True, kw_only=True):
    """What was started."""

    execution_id: str


@operation(START, route=None, scopes=(RUN_SCOPE,), open_world=True, risk="medium", subject="schedule_id")
async def schedule_start(context: Context, given: StartScheduled) -> ScheduledRun:
    """Start a run by the clock."""
    scheduler = context.services.scheduler
    row = await scheduler.find(given.schedule_id)
    if row is None or row.tenant != context.tenant:
        raise NotFound("SCHEDULE_NOT_FOUND", f"the schedule {given.schedule_id} was deleted by another call")
    refuse_proposed(
        context.services, author_of_schedule(row), f"schedule {id_for_callers(row.tenant, row.schedule_id)}"
    )
    authority = await authority_of_schedule(context.services, row)
    maker = await rights_of_maker(context.services, context.principal.on_behalf_of, context.tenant, SCHEDULE, authority)
    newest = await context.services.store.definitions.find_named(row.workflow_name, tenant=row.tenant)
    await check_maker(context.services, maker, newest, SCHEDULE, author_of_schedule(row))
    if newest is not None:
        await refuse_by_policy(context, newest.name, newest.document, row.spec.get("input"), maker=maker)
    await admit_workflow(context, row.workflow_name)
    outcome = await scheduler.begin(row, given.mark, context.initiator, call=context.call)
    match outcome:
        case Started(run_id=run_id):
            return ScheduledRun(execution_id=id_for_callers(row.tenant, run_id))
        case NotAllowed(code=code, message=message):
            raise Rejected(code, message)
        case Skipped(reason=reason):
            raise Conflict("SCHEDULE_NOT_STARTED", reason)
        case _:
            raise Conflict("SCHEDULE_NOT_STARTED", "the previous run must end first")


def fire_through(gate: Gate) -> Fire:
    """Return the function with which a scheduler starts what is due: a call through the gate, as the schedule."""

    async def fire(row: ScheduleRow, mark: str) -> FireOutcome:
        named = id_for_callers(row.tenant, row.schedule_id)
        maker = await maker_id(gate.services, row)
        principal = Principal(
            id=f"schedule:{named}",
            tenant=row.tenant,
            kind="schedule",
            scopes=frozenset({RUN_SCOPE}),
            name=f"schedule {named}",
        )
        try:
            acting = await as_trigger(gate.services, principal, maker)
            await internal_call(gate, acting, START, {"schedule_id": row.schedule_id, "mark": mark}, surface="schedule")
        except _FINAL as error:
            return NotAllowed(error.code, error.message)
        return Started(scheduled_run_id(row, mark))

    return fire


OPERATIONS: tuple[Capability, ...] = (schedule_start,)

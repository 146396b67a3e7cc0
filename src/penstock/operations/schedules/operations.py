"""Operations on schedules, which start runs at set times.

A schedule is made by an operation or by the `triggers` of a workflow document; `origin` says which. Schedules of a
document follow the document: they can be paused and run by hand here, but are changed and deleted there.

Above it: the catalogue. Below it: `runtime.schedules`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.base import limits
from penstock.base.errors import Conflict, LimitExceeded, NotFound
from penstock.base.ids import id_for_callers, id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.folding.trust import untrusted_mark
from penstock.engine.outcomes import Accepted
from penstock.governance.authorship import weaker_author
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, WorkflowId, instant
from penstock.operations.catalogue.reaching import named
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.admission import admit_workflow
from penstock.operations.permissions.authorship import author_of, refuse_proposed
from penstock.operations.permissions.makers import author_of_schedule, maker_id
from penstock.operations.permissions.standing_authority import AUTHOR, AUTHORITY, schedule_authority
from penstock.operations.permissions.starting import refuse_start
from penstock.operations.runs.fields import CHOSEN_ID, AnyId, Name, ShortText
from penstock.operations.runs.handles import handle_now
from penstock.operations.runs.proposals import AuthorView, ProposalView, author_view, proposals_of
from penstock.operations.runs.secret_arguments import refuse_secret_input, secret_inputs
from penstock.operations.runs.start_policies import refuse_by_policy
from penstock.operations.runs.starting import new_run_id, refuse_unfit_input, startable_definition
from penstock.operations.runs.views import ExecutionHandle, ExecutionSummary, handle_of_state, summary_of_row
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import ScheduleRow
from penstock.runtime.schedules.scheduler import RecordChange, origin_of, refusal_of
from penstock.runtime.tables.schedules import delete_schedule, list_schedules

__all__ = ["OPERATIONS", "Cron", "Zone"]

Overlap: TypeAlias = Literal["skip", "queue", "allow", "cancel_running"]

ScheduleId = Annotated[AnyId, Meta(description="The schedule's id.", examples=["nightly-report"])]
Cron = Annotated[
    str,
    Meta(
        description="When: minute, hour, day of month, month, day of week.",
        min_length=1,
        max_length=200,
        examples=["0 3 * * 1-5"],
    ),
]
Zone = Annotated[str, Meta(description="The time zone of the expression.", max_length=64, examples=["Europe/Berlin"])]
OverlapChoice = Annotated[Overlap, Meta(description="What happens when the previous run has not ended.")]
CatchUp = Annotated[
    ShortText | None,
    Meta(description="How old a missed start may be and still happen; a minute without.", examples=["10m"]),
]
Jitter = Annotated[ShortText | None, Meta(description="How far starts are spread.", examples=["30s"])]


class ScheduleRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a start by the clock was refused."""

    at: str | None
    code: str
    message: str


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, when it starts a run next, and the one it started last."""

    schedule_id: str
    workflow_id: str
    origin: str
    """operation, document, or program."""
    cron: str
    timezone: str
    overlap: str
    catch_up: str | None
    jitter: str | None
    input: Any
    paused: bool
    next_at: str | None
    last_run: ExecutionSummary | None
    made_by: str | None = None
    """The principal that it acts for: who made it, changed it last, or stored the workflow that it is part of."""
    author: AuthorView | None = None
    """Who wrote it, if an operation made it, and whether it takes effect."""
    refused: ScheduleRefusal | None = None
    """Why the last start was refused; None if it was not."""


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schedules, by id."""

    items: list[ScheduleView]
    next_cursor: str | None
    proposals: list[ProposalView] = []
    """Held calls that would store one; on the first page."""


class CreateSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which workflow to start, when, and with what."""

    workflow_id: WorkflowId
    cron: Cron
    schedule_id: Annotated[
        Annotated[str, Meta(pattern=CHOSEN_ID)] | None,
        Meta(description="An id of your own.", examples=["nightly-report"]),
    ] = None
    timezone: Zone = "UTC"
    overlap: OverlapChoice = "skip"
    catch_up: CatchUp = None
    jitter: Jitter = None
    input: Annotated[Any, Meta(description="The input of each run.")] = None
    paused: Annotated[bool, Meta(description="Begin paused.")] = False


class ListSchedules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    workflow_id: Annotated[Name | None, Meta(description="Only schedules of this workflow.")] = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class NamedSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedule."""

    schedule_id: ScheduleId


class UpdateSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedule, and what is to be different; what is left out stays."""

    schedule_id: ScheduleId
    cron: Cron | UnsetType = UNSET
    timezone: Zone | UnsetType = UNSET
    overlap: OverlapChoice | UnsetType = UNSET
    catch_up: CatchUp | UnsetType = UNSET
    jitter: Jitter | UnsetType = UNSET
    input: Annotated[Any, Meta(description="The input of each run.")] | UnsetType = UNSET


async def _found(context: Context, schedule_id: str) -> ScheduleRow:
    """Return a schedule of the caller's tenant; raise NotFound if it does not exist."""
    row = await context.services.scheduler.find(id_in_tenant(context.tenant, schedule_id))
    if row is None or row.tenant != context.tenant:
        message = f"there is no schedule {schedule_id[:200]}"
        raise NotFound("SCHEDULE_NOT_FOUND", message, "list the schedules with schedule.list")
    return row


async def _find_schedule(context: Context, given: Any) -> ScheduleRow:
    """Find the schedule that the input of a call names."""
    return await _found(context, given.schedule_id)


async def _find_scheduled(context: Context, given: CreateSchedule) -> None:
    """Find the workflow that a new schedule would start, as the call itself would."""
    definition = await startable_definition(context, given.workflow_id)
    await refuse_by_policy(context, definition.name, definition.document, given.input)


async def _view(context: Context, row: ScheduleRow) -> ScheduleView:
    last = await context.services.store.row(row.last_run_id) if row.last_run_id else None
    spec = row.spec
    return ScheduleView(
        schedule_id=id_for_callers(row.tenant, row.schedule_id),
        workflow_id=row.workflow_name,
        origin=origin_of(row),
        cron=str(spec.get("cron", "")),
        timezone=str(spec.get("timezone", "UTC")),
        overlap=str(spec.get("overlap", "skip")),
        catch_up=_text(spec.get("catch_up")),
        jitter=_text(spec.get("jitter")),
        input=spec.get("input"),
        paused=row.paused,
        next_at=None if row.paused else instant(row.next_at),
        last_run=summary_of_row(last) if last is not None else None,
        made_by=await maker_id(context.services, row),
        author=author_view(context.services, author_of_schedule(row)),
        refused=_refusal(row),
    )


def _refusal(row: ScheduleRow) -> ScheduleRefusal | None:
    found = refusal_of(row)
    if found is None:
        return None
    at = found.get("at")
    at_text = instant(at) if isinstance(at, int) else None
    return ScheduleRefusal(at=at_text, code=str(found.get("code")), message=str(found.get("message")))


def _text(value: JsonValue) -> str | None:
    return None if value is None else str(value)


async def _check_start(context: Context, workflow_id: str, given: JsonValue) -> None:
    """Check that the schedule could start a run now: better to refuse it now than when it fires at night."""
    definition = await startable_definition(context, workflow_id)
    await refuse_by_policy(context, definition.name, definition.document, given, counts="later")
    workflow = await context.services.host.workflow(definition.hash)
    if workflow is not None:
        await refuse_unfit_input(context, workflow, given)
        refuse_secret_input(workflow.input_schema, given)


async def _refuse_start(context: Context, row: ScheduleRow) -> None:
    """Refuse a change that makes a schedule start runs, if the caller may not start its workflow."""
    definition = await context.services.store.definitions.find_named(row.workflow_name, tenant=context.tenant)
    if definition is not None:  # if there is none, the scheduler reports that
        await refuse_start(context.services, context.principal, definition)
        given = row.spec.get("input")
        await refuse_by_policy(context, definition.name, definition.document, given, counts="later")


def _mark(context: Context) -> JsonObject:
    """Return the mark of a schedule from an untrusted call: the runs that it starts are untrusted, too."""
    return untrusted_mark(untrusted=context.request.from_outside)


def _refuse_of_document(row: ScheduleRow, schedule_id: str) -> None:
    if origin_of(row) == "document":
        message = f"the schedule {schedule_id} is part of the workflow {row.workflow_name}"
        raise Conflict("SCHEDULE_OF_DOCUMENT", message, "change the workflow's `triggers`; pausing is possible here")


@operation(
    "schedule.create",
    route=Route(method="POST", path="/schedules", status=201),
    scopes=("schedule:write", "workflow:run"),
    risk="medium",
    stores="schedule",
    subject="workflow_id",
    find=_find_scheduled,
    reaches=named("workflow:", "workflow_id"),
    errors=(
        "WORKFLOW_NOT_FOUND",
        "INPUT_INVALID",
        "SCHEDULE_INVALID",
        "SCHEDULE_EXISTS",
        "SCHEDULES_LIMITED",
        "SECRET_INPUT_NOT_KEPT",
    ),
    secrets=secret_inputs,
    examples=(Example(arguments={"workflow_id": "report", "cron": "0 3 * * *", "timezone": "Europe/Berlin"}),),
)
async def schedule_create(context: Context, given: CreateSchedule) -> Reply[ScheduleView]:
    """Schedule a workflow.

    Makes a schedule from a cron expression in a time zone. Each time starts a run of the newest version; find these
    runs with execution.list and the label `schedule`.
    """
    scheduler = context.services.scheduler
    stored_id, is_repeated = _new_id(context, given.schedule_id)
    spec: JsonObject = {
        "cron": given.cron,
        "timezone": given.timezone,
        "overlap": given.overlap,
        "catch_up": given.catch_up,
        "jitter": given.jitter,
        "input": given.input,
        "origin": "operation",
        "made_by": context.principal.id,
        **schedule_authority(context),
        **_mark(context),
        AUTHOR: msgspec.to_builtins(author_of(context)),
    }
    spec = {name: value for name, value in spec.items() if value is not None}
    known = await list_schedules(context.services.store.database, tenant=context.tenant)
    row = next((row for row in known if row.schedule_id == stored_id), None) if is_repeated else None
    if row is None:
        if len(known) >= limits.SCHEDULES_PER_TENANT_MAX:
            message = f"the tenant already has {limits.SCHEDULES_PER_TENANT_MAX} schedules"
            raise LimitExceeded("SCHEDULES_LIMITED", message, "delete one with schedule.delete")
        await _check_start(context, given.workflow_id, given.input)
        row = scheduler.fresh(stored_id, given.workflow_id, spec, tenant=context.tenant, paused=given.paused)
        reply = await _created(context, row)
        if not await scheduler.keep(row, None, call=idempotency.answered(context, reply)):
            message = f"the schedule {given.schedule_id} already exists"
            raise Conflict("SCHEDULE_EXISTS", message, "change it with schedule.update, or choose another id")
        return reply
    return await _created(context, row)


async def _created(context: Context, row: ScheduleRow) -> Reply[ScheduleView]:
    view = await _view(context, row)
    return Reply(value=view, location=f"/schedules/{view.schedule_id}")


def _new_id(context: Context, chosen: str | None) -> tuple[str, bool]:
    """Return the stored id for a new schedule, and whether it is derived from the idempotency key."""
    made, known = new_run_id(context, chosen)
    if chosen is not None:
        return made, False
    return made.replace("r_", "s_", 1), known


@operation(
    "schedule.list",
    route=Route(method="GET", path="/schedules", query=("workflow_id", "limit", "cursor")),
    scopes=("schedule:read",),
    reads=True,
)
async def schedule_list(context: Context, given: ListSchedules) -> SchedulePage:
    """List schedules.

    Ordered by id, with the time of the next start and the last run.
    """
    rows = sorted(
        await list_schedules(context.services.store.database, tenant=context.tenant), key=lambda row: row.schedule_id
    )
    after = "" if given.cursor is None else id_in_tenant(context.tenant, given.cursor)
    wanted = [row for row in rows if row.schedule_id > after and given.workflow_id in (None, row.workflow_name)]
    page = [await _view(context, row) for row in wanted[: given.limit]]
    return SchedulePage(
        items=page,
        next_cursor=page[-1].schedule_id if len(wanted) > given.limit else None,
        proposals=await proposals_of(context, "schedule", cursor=given.cursor),
    )


@operation(
    "schedule.get",
    route=Route(method="GET", path="/schedules/{schedule_id}"),
    scopes=("schedule:read",),
    reads=True,
    subject="schedule_id",
    errors=("SCHEDULE_NOT_FOUND",),
)
async def schedule_get(context: Context, given: NamedSchedule) -> ScheduleView:
    """Get a schedule."""
    return await _view(context, await _found(context, given.schedule_id))


@operation(
    "schedule.update",
    route=Route(method="PATCH", path="/schedules/{schedule_id}"),
    scopes=("schedule:write", "workflow:run"),
    idempotent=True,
    risk="medium",
    stores="schedule",
    subject="schedule_id",
    find=_find_schedule,
    reaches=named("schedule:", "schedule_id"),
    errors=(
        "SCHEDULE_NOT_FOUND",
        "SCHEDULE_INVALID",
        "SCHEDULE_OF_DOCUMENT",
        "INPUT_INVALID",
        "WORKFLOW_NOT_FOUND",
        "SECRET_INPUT_NOT_KEPT",
    ),
    secrets=secret_inputs,
    examples=(Example(arguments={"schedule_id": "nightly-report", "cron": "0 4 * * *"}),),
)
async def schedule_update(context: Context, given: UpdateSchedule) -> ScheduleView:
    """Change a schedule.

    Fields that you leave out stay. The next start is computed again; a paused schedule stays paused.
    """
    row = await _found(context, given.schedule_id)
    _refuse_of_document(row, given.schedule_id)
    await _refuse_start(context, row)
    changes: JsonObject = {
        name: value
        for name, value in (
            ("cron", given.cron),
            ("timezone", given.timezone),
            ("overlap", given.overlap),
            ("catch_up", given.catch_up),
            ("jitter", given.jitter),
            ("input", given.input),
        )
        if value is not UNSET
    }
    # From now on it acts for the principal that changed it: nobody's rights may serve what others make of a schedule.
    changes["made_by"] = context.principal.id
    changes.update({AUTHORITY: None, **schedule_authority(context), **_mark(context)})
    changes[AUTHOR] = msgspec.to_builtins(weaker_author(author_of_schedule(row), author_of(context)))
    if "input" in changes:
        await _check_start(context, row.workflow_name, changes["input"])
    record = _recorded(context)
    return await _view(context, await context.services.scheduler.change(row.schedule_id, changes, record=record))


def _recorded(context: Context) -> RecordChange:
    """Return what makes the record of a call for a schedule that it changes, with the answer."""

    async def record(changed: ScheduleRow) -> CallRecord:
        return idempotency.answered(context, Reply(value=await _view(context, changed)))

    return record


@operation(
    "schedule.delete",
    route=Route(method="DELETE", path="/schedules/{schedule_id}"),
    scopes=("schedule:delete",),
    destructive=True,
    risk="medium",
    subject="schedule_id",
    find=_find_schedule,
    errors=("SCHEDULE_NOT_FOUND", "SCHEDULE_OF_DOCUMENT"),
)
async def schedule_delete(context: Context, given: NamedSchedule) -> Deleted:
    """Delete a schedule.

    Runs that it started stay, and continue.
    """
    row = await _found(context, given.schedule_id)
    _refuse_of_document(row, given.schedule_id)
    answer = Deleted(id=id_for_callers(row.tenant, row.schedule_id))
    call = idempotency.answered(context, Reply(value=answer))
    if not await delete_schedule(context.services.store.database, row.schedule_id, call=call):
        raise NotFound("SCHEDULE_NOT_FOUND", f"the schedule {given.schedule_id} was deleted by another call")
    return answer


@operation(
    "schedule.pause",
    route=Route(method="POST", path="/schedules/{schedule_id}/pause"),
    scopes=("schedule:write",),
    idempotent=True,
    subject="schedule_id",
    find=_find_schedule,
    errors=("SCHEDULE_NOT_FOUND",),
)
async def schedule_pause(context: Context, given: NamedSchedule) -> ScheduleView:
    """Pause a schedule.

    It starts nothing until schedule.resume; missed starts are not made up for.
    """
    return await _paused(context, given.schedule_id, paused=True)


@operation(
    "schedule.resume",
    route=Route(method="POST", path="/schedules/{schedule_id}/resume"),
    scopes=("schedule:write", "workflow:run"),
    idempotent=True,
    subject="schedule_id",
    find=_find_schedule,
    reaches=named("schedule:", "schedule_id"),
    errors=("SCHEDULE_NOT_FOUND",),
)
async def schedule_resume(context: Context, given: NamedSchedule) -> ScheduleView:
    """Resume a paused schedule.

    It starts runs again, so you need the right to start them.
    """
    return await _paused(context, given.schedule_id, paused=False)


async def _paused(context: Context, schedule_id: str, *, paused: bool) -> ScheduleView:
    row = await _found(context, schedule_id)
    if not paused:
        await _refuse_start(context, row)
    record = _recorded(context)
    return await _view(context, await context.services.scheduler.pause(row.schedule_id, paused=paused, record=record))


@operation(
    "schedule.run_now",
    route=Route(method="POST", path="/schedules/{schedule_id}/run", status=202),
    scopes=("schedule:write", "workflow:run"),
    open_world=True,
    risk="medium",
    subject="schedule_id",
    find=_find_schedule,
    reaches=named("schedule:", "schedule_id"),
    errors=(
        "SCHEDULE_NOT_FOUND",
        "SCHEDULE_NOT_STARTED",
        "EXECUTION_NOT_FOUND",
        "QUOTA_EXCEEDED",
        "VERSION_PROPOSED",
    ),
)
async def schedule_run_now(context: Context, given: NamedSchedule) -> Reply[ExecutionHandle]:
    """Start a run of a schedule now.

    Uses the input of the schedule and its rule for runs in progress; the timetable does not change.
    """
    row = await _found(context, given.schedule_id)
    refuse_proposed(context.services, author_of_schedule(row), f"schedule {given.schedule_id}")
    await _refuse_start(context, row)
    await admit_workflow(context, row.workflow_name)
    made, _ = new_run_id(context, None)
    answer = idempotency.answered_by(context, partial(_begun, context))
    run_id = await context.services.scheduler.run_now(
        row.schedule_id, mark=made.rpartition("r_")[2], starter=context.initiator, call=context.call
    )
    return answer.reply or _at(await handle_now(context, run_id))


def _begun(context: Context, decision: Accepted) -> Reply[ExecutionHandle] | None:
    """Reply that a run was started. A schedule may first cancel the previous run; that decision is not the answer."""
    is_new = decision.records[0].seq == 1
    return _at(handle_of_state(decision.state, context.services.base_path)) if is_new else None


def _at(handle: ExecutionHandle) -> Reply[ExecutionHandle]:
    return Reply(value=handle, location=f"/executions/{handle.execution_id}")


OPERATIONS: tuple[Capability, ...] = (
    schedule_create,
    schedule_list,
    schedule_get,
    schedule_update,
    schedule_delete,
    schedule_pause,
    schedule_resume,
    schedule_run_now,
)

"""The scheduler: starts runs by the clock.

A schedule has a cron expression in a time zone. It also says what happens if the previous run has not ended
(`overlap`), how late a missed start may still happen (`catch_up`), and how far starts are spread (`jitter`). The id of
a scheduled run is derived from the schedule and the fire time, so that two processes that both find it due start it
once.

`fire` starts what is due: a gate, if there is one, as a call of the schedule.

Above it: `Penstock`, operations. Below it: the host port, `timetables`. Between two checks it keeps nothing that
another process would need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict, NotFound, PenstockError, Rejected
from penstock.base.ids import DEFAULT_TENANT, id_for_callers, id_in_tenant
from penstock.base.json import JsonObject
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.folding.trust import UNTRUSTED
from penstock.engine.inputs import PROGRAM, Initiator
from penstock.engine.outcomes import Refused
from penstock.runtime.ports.host import RunHost
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import ScheduleRow
from penstock.runtime.schedules.timetables import ClockStepRepair, Timetable, next_fire_at, timetable_of
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import delete_schedule, list_schedules, put_schedule

__all__ = [
    "Fire",
    "FireOutcome",
    "NotAllowed",
    "Postponed",
    "RecordChange",
    "Scheduler",
    "Skipped",
    "Started",
    "check_schedules",
    "made_by",
    "origin_of",
    "refusal_of",
    "scheduled_run_id",
]

_LOOK_SECONDS = 1.0
# Keys that the scheduler adds to a specification.
_MADE_BY, _REFUSED = "made_by", "refused"


@dataclass(frozen=True, slots=True)
class Started:
    """A run was started."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """No run was started this time, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """The previous run must end first."""


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """The creator of the schedule may not start this, or it cannot be started; noted on the schedule."""

    code: str
    message: str


FireOutcome: TypeAlias = Started | Skipped | Postponed | NotAllowed
Fire: TypeAlias = Callable[[ScheduleRow, str], Awaitable[FireOutcome]]
RecordChange: TypeAlias = Callable[[ScheduleRow], Awaitable[CallRecord]]
"""Makes the record of the call that changes a schedule, with the schedule as it will be."""


def _scheduled(workflow: Workflow, tenant: str) -> list[tuple[str, JsonObject]]:
    """Return the triggers of a document, each with the id of its schedule."""
    return [
        (id_in_tenant(tenant, str(trigger.get("id") or f"{workflow.name}:{number}")), trigger)
        for number, trigger in enumerate(workflow.triggers)
    ]


def check_schedules(workflow: Workflow) -> None:
    """Refuse a document with an invalid schedule: better before it is stored than after."""
    for number, trigger in enumerate(workflow.triggers):
        schedule = trigger.get("schedule")
        if isinstance(schedule, dict):
            try:
                timetable_of(schedule)
            except Rejected as error:
                place = f"/triggers/{number}/schedule"
                finding: JsonObject = {"code": error.code, "severity": "error", "path": place}
                finding.update({"message": error.message, "hint": error.hint})
                message = f"the schedule at {place} cannot be kept: {error.message}"
                raise Rejected("INVALID_DOCUMENT", message, error.hint, {"findings": [finding]}) from None


def origin_of(row: ScheduleRow) -> str:
    """Return what created a schedule: a `document`, an `operation`, or the `program` that embeds Penstock."""
    origin = row.spec.get("origin")
    return origin if isinstance(origin, str) else "program"


def made_by(row: ScheduleRow) -> str | None:
    """Return the principal who created or last changed a schedule by an operation: it starts runs on their behalf."""
    found = row.spec.get(_MADE_BY)
    return found if isinstance(found, str) else None


def refusal_of(row: ScheduleRow) -> JsonObject | None:
    """Return why the last start was refused (`at`, `code`, `message`), or None."""
    found = row.spec.get(_REFUSED)
    return found if isinstance(found, dict) else None


def scheduled_run_id(row: ScheduleRow, mark: str) -> str:
    """Return the id of a scheduled run, derived from the fire time or another mark, so that it is started once."""
    return f"{row.schedule_id}@{mark}"


def _without_note(spec: JsonObject) -> JsonObject:
    """Return a specification without the note about the last start."""
    return {name: value for name, value in spec.items() if name != _REFUSED}


def _may_belong_to(row: ScheduleRow, workflow_name: str) -> bool:
    """Whether a schedule may belong to a workflow's document; schedules of older files do not name their creator."""
    return origin_of(row) == "program" or (origin_of(row) == "document" and row.workflow_name == workflow_name)


@dataclass(slots=True, kw_only=True)
class Scheduler:
    """Starts scheduled runs until it is stopped."""

    host: RunHost
    store: RunStore
    report: Callable[[str, BaseException], None] = lambda where, error: None
    fire: Fire | None = None
    """Starts a run of a due schedule; without it, the scheduler starts the run itself, as the embedding program."""
    _task: asyncio.Task[None] | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _clock_steps: ClockStepRepair = field(default_factory=ClockStepRepair)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a run is started: the check whether another run is in progress must still be true afterwards."""

    def start(self) -> None:
        """Start checking the clock, unless already started."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._loop())

    @property
    def is_looking(self) -> bool:
        """Whether it checks the clock."""
        return self._task is not None

    async def stop(self) -> None:
        """Stop checking the clock."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def nudge(self) -> None:
        """Check now: for clocks that are moved by hand."""
        self._wake.set()

    async def put(
        self,
        schedule_id: str,
        workflow_name: str,
        spec: JsonObject,
        *,
        tenant: str = DEFAULT_TENANT,
        paused: bool = False,
    ) -> ScheduleRow:
        """Create a schedule or replace its specification; a paused one stays paused. Its runs belong to its tenant."""
        while True:
            known = await self.find(schedule_id)
            if known is not None and known.tenant != tenant:
                message = f"the id {schedule_id} is taken by a schedule of another tenant"
                raise Conflict("SCHEDULE_ID_TAKEN", message, "choose another id")
            if known is not None and _without_note(known.spec) == spec and known.workflow_name == workflow_name:
                return known
            row = replace(
                self.fresh(schedule_id, workflow_name, spec, tenant=tenant),
                paused=known.paused if known else paused,
                last_run_id=known.last_run_id if known else None,
            )
            if await self.keep(row, known):
                return row

    def fresh(
        self,
        schedule_id: str,
        workflow_name: str,
        spec: JsonObject,
        *,
        tenant: str = DEFAULT_TENANT,
        paused: bool = False,
    ) -> ScheduleRow:
        """Build the row of a new schedule."""
        return ScheduleRow(
            schedule_id=schedule_id,
            workflow_name=workflow_name,
            spec=spec,
            next_at=self._next_at(schedule_id, spec),
            tenant=tenant,
            paused=paused,
        )

    async def change(self, schedule_id: str, changes: JsonObject, *, record: RecordChange | None = None) -> ScheduleRow:
        """Change members of a schedule's current specification; None removes one."""

        def changed(row: ScheduleRow) -> ScheduleRow:
            wanted = {**_without_note(row.spec), **changes}
            spec: JsonObject = {name: value for name, value in wanted.items() if value is not None}
            if spec == row.spec:
                return row
            return replace(row, spec=spec, next_at=self._next_at(schedule_id, spec))

        return await self._changed(schedule_id, changed, record)

    def _next_at(self, schedule_id: str, spec: JsonObject) -> int | None:
        return next_fire_at(schedule_id, timetable_of(spec), self.host.clock.now_ms())

    async def keep(self, row: ScheduleRow, known: ScheduleRow | None, *, call: CallRecord | None = None) -> bool:
        """Store a schedule, unless it was changed by another call: no concurrent change may be lost."""
        kept = await put_schedule(self.store.database, row, expected=known, call=call)
        self.nudge()
        return kept

    async def _changed(
        self, schedule_id: str, change: Callable[[ScheduleRow], ScheduleRow], record: RecordChange | None
    ) -> ScheduleRow:
        """Apply a change to a schedule as it is when it is stored."""
        while True:
            changed = change(row := await self._existing(schedule_id))
            if changed == row or await self.keep(changed, row, call=None if record is None else await record(changed)):
                return changed

    async def put_triggers(self, workflow: Workflow, *, tenant: str = DEFAULT_TENANT) -> list[ScheduleRow]:
        """Create the schedules that a document's `triggers` ask for, and delete those that it no longer asks for.

        A schedule with the id of a trigger that was created elsewhere stays unchanged; `report` is called with it.
        """
        rows = []
        known = {row.schedule_id: row for row in await list_schedules(self.store.database, tenant=tenant)}
        for schedule_id, trigger in _scheduled(workflow, tenant):
            schedule = trigger.get("schedule")
            if not isinstance(schedule, dict) or trigger.get("enabled") is False:
                continue
            there = known.get(schedule_id)
            if there is not None and not _may_belong_to(there, workflow.name):
                message = f"{workflow.name} asks for the schedule {schedule_id}, which another workflow or person made"
                self.report("schedules", Conflict("SCHEDULE_ID_TAKEN", message, "give the trigger another id"))
                continue
            spec: JsonObject = {**schedule, "input": trigger.get("input"), "origin": "document"}
            rows.append(await self.put(schedule_id, workflow.name, spec, tenant=tenant))
        asked_for = {row.schedule_id for row in rows}
        for row in known.values():
            if row.workflow_name == workflow.name and origin_of(row) == "document" and row.schedule_id not in asked_for:
                await delete_schedule(self.store.database, row.schedule_id)
        return rows

    async def taken(self, workflow: Workflow, *, tenant: str = DEFAULT_TENANT) -> ScheduleRow | None:
        """Return a schedule that a document asks for, and that another workflow or a person made."""
        wanted = {name for name, trigger in _scheduled(workflow, tenant) if trigger.get("enabled") is not False}
        known = await list_schedules(self.store.database, tenant=tenant) if workflow.triggers else ()
        others = (row for row in known if row.schedule_id in wanted and not _may_belong_to(row, workflow.name))
        return next(others, None)

    async def follow(self, workflow_name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Make the schedules of a workflow match its newest version, even if it changes meanwhile."""
        followed: str | None = None
        while (newest := await self.host.workflow_named(workflow_name, tenant=tenant)) is not None:
            if newest.hash == followed:
                return
            await self.put_triggers(newest, tenant=tenant)
            followed = newest.hash
        await self.drop_triggers(workflow_name, tenant=tenant)

    async def follow_all(self) -> None:
        """Call `follow` for every workflow with triggers, and for those that still have schedules.

        A process may have died after it stored or deleted a workflow and before it updated the schedules.
        """
        wanted: set[tuple[str, str]] = {
            (row.tenant, row.workflow_name)
            for row in await list_schedules(self.store.database)
            if origin_of(row) == "document"
        }
        cursor: str | None = None
        while True:
            page = await self.store.definitions.list_page(tenant=None, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
            wanted.update((row.tenant, row.name) for row in page.rows if row.document.get("triggers"))
            cursor = page.next_cursor
            if cursor is None:
                break
        for tenant, name in sorted(wanted):
            await self._follow_reporting(name, tenant)

    async def _follow_reporting(self, workflow_name: str, tenant: str) -> None:
        try:
            await self.follow(workflow_name, tenant=tenant)
        except PenstockError as error:  # one document must not keep the others from being started
            self.report(f"the schedules of {workflow_name}", error)

    async def drop_triggers(
        self, workflow_name: str, *, tenant: str = DEFAULT_TENANT, workflow: Workflow | None = None
    ) -> None:
        """Delete the schedules of a name's document (that of `workflow`, or the newest); others stay.

        Schedules of older files do not name their creator: they are recognised by the ids that the document gives them.
        """
        workflow = workflow or await self.host.workflow_named(workflow_name, tenant=tenant)
        asked_for = set() if workflow is None else {schedule_id for schedule_id, _ in _scheduled(workflow, tenant)}
        for row in await list_schedules(self.store.database, tenant=tenant):
            if row.workflow_name != workflow_name:
                continue
            if origin_of(row) == "document" or (origin_of(row) == "program" and row.schedule_id in asked_for):
                await delete_schedule(self.store.database, row.schedule_id)

    async def pause(self, schedule_id: str, *, paused: bool, record: RecordChange | None = None) -> ScheduleRow:
        """Pause a schedule, or resume it from now on."""

        def changed(row: ScheduleRow) -> ScheduleRow:
            return replace(row, paused=paused, next_at=self._next_at(schedule_id, row.spec))

        return await self._changed(schedule_id, changed, record)

    async def run_now(
        self,
        schedule_id: str,
        *,
        mark: str | None = None,
        starter: Initiator = PROGRAM,
        call: CallRecord | None = None,
    ) -> str:
        """Start a run of a schedule at once, without changing its timetable. The same `mark` starts it once."""
        async with self._starting:
            row = await self._existing(schedule_id)
            mark = mark or str(self.host.clock.now_ms())
            outcome = await self._obstacle(row, mark) or await self.begin(row, mark, starter, call=call)
            if not isinstance(outcome, Started):
                message = f"schedule {id_for_callers(row.tenant, schedule_id)} did not start: {_why(outcome)}"
                raise Conflict("SCHEDULE_NOT_STARTED", message, "wait for the previous run, or cancel it")
            await self._note(row, next_at=row.next_at, last_run_id=outcome.run_id)
            return outcome.run_id

    async def find(self, schedule_id: str) -> ScheduleRow | None:
        """Return a schedule by the id that it is stored under."""
        return next((row for row in await list_schedules(self.store.database) if row.schedule_id == schedule_id), None)

    async def _existing(self, schedule_id: str) -> ScheduleRow:
        row = await self.find(schedule_id)
        if row is None:
            raise NotFound("SCHEDULE_NOT_FOUND", f"there is no schedule {schedule_id}")
        return row

    async def _note(
        self, row: ScheduleRow, *, next_at: int | None, last_run_id: str | None, refused: JsonObject | None = None
    ) -> None:
        """Store the outcome of a start; concurrent changes to the schedule are kept."""
        while (current := await self.find(row.schedule_id)) is not None:
            asked_for = _without_note(current.spec)
            same = asked_for == _without_note(row.spec) and current.next_at == row.next_at
            noted = replace(
                current,
                next_at=next_at if same else current.next_at,
                last_run_id=last_run_id,
                spec=asked_for if refused is None else {**asked_for, _REFUSED: refused},
            )
            if await put_schedule(self.store.database, noted, expected=current):
                return

    async def _loop(self) -> None:
        try:
            await self.follow_all()
        except Exception as error:  # the store may recover
            self.report("schedules", error)
        while True:
            self._wake.clear()
            try:
                await self.fire_due()
            except Exception as error:  # the store may recover
                self.report("schedules", error)
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def fire_due(self) -> dict[str, FireOutcome]:
        """Start what is due and return the outcome for each due schedule."""
        now = self.host.clock.now_ms()
        outcomes: dict[str, FireOutcome] = {}
        async with self._starting:
            for listed in await list_schedules(self.store.database):
                row = (
                    listed
                    if listed.paused or self._clock_steps.fits(listed, now)
                    else await self._corrected(listed, now)
                )
                if not row.paused and row.next_at is not None and row.next_at <= now:
                    outcomes[row.schedule_id] = await self._fire(row, row.next_at, now)
            self._clock_steps.looked(now)
        return outcomes

    async def _corrected(self, row: ScheduleRow, now: int) -> ScheduleRow:
        """Correct the fire time of a schedule that was computed by a clock that was ahead."""
        placed = replace(row, next_at=self._clock_steps.next_at(row, now))
        return placed if await put_schedule(self.store.database, placed, expected=row) else row

    async def _fire(self, row: ScheduleRow, moment: int, now: int) -> FireOutcome:
        timetable = timetable_of(row.spec)
        if now - moment > timetable.catch_up_ms:
            following = next_fire_at(row.schedule_id, timetable, now)
            await self._note(row, next_at=following, last_run_id=row.last_run_id)
            return Skipped(f"missed by {(now - moment) // 1000} s")
        mark = str(moment)
        outcome = await self._obstacle(row, mark) or await (self.fire or self._start_directly)(row, mark)
        if isinstance(outcome, Postponed):
            return outcome
        refused: JsonObject | None = None
        if isinstance(outcome, NotAllowed):
            refused = {"at": now, "code": outcome.code, "message": outcome.message}
        following = next_fire_at(row.schedule_id, timetable, moment)
        last = outcome.run_id if isinstance(outcome, Started) else row.last_run_id
        await self._note(row, next_at=following, last_run_id=last, refused=refused)
        return outcome

    async def _obstacle(self, row: ScheduleRow, mark: str) -> FireOutcome | None:
        """Return what keeps a schedule from starting a run, by its own rules; None if nothing does."""
        run_id = scheduled_run_id(row, mark)
        if row.last_run_id == run_id:
            return Started(run_id)  # the clock moved back; a run must not hinder itself
        previous = await self._unfinished_run(row)
        overlap = timetable_of(row.spec).overlap
        if previous is not None and overlap == "skip":
            return Skipped(f"run {id_for_callers(row.tenant, previous)} is still going")
        return Postponed() if previous is not None and overlap == "queue" else None

    async def _unfinished_run(self, row: ScheduleRow) -> str | None:
        """Return the last run that the schedule started, or the run that continues it, if it has not ended."""
        previous = await self.host.row(await self.host.newest(row.last_run_id)) if row.last_run_id else None
        return None if previous is None or previous.terminal else previous.run_id

    async def _start_directly(self, row: ScheduleRow, mark: str) -> FireOutcome:
        schedule = f"schedule:{id_for_callers(row.tenant, row.schedule_id)}"
        return await self.begin(row, mark, Initiator(principal=schedule, on_behalf_of=PROGRAM.principal))

    async def begin(
        self, row: ScheduleRow, mark: str, starter: Initiator, *, call: CallRecord | None = None
    ) -> FireOutcome:
        """Start a run of a schedule; cancel the previous run first if the schedule says so."""
        timetable: Timetable = timetable_of(row.spec)
        workflow = await self.host.workflow_named(row.workflow_name, tenant=row.tenant)
        if workflow is None:
            return Skipped(f"there is no workflow {row.workflow_name}")
        if timetable.overlap == "cancel_running" and (previous := await self._unfinished_run(row)) is not None:
            reason = f"the schedule {row.schedule_id} starts again"
            cancel = inputs.CancelRun(at=self.host.clock.now_ms(), reason=reason)
            await self.host.send(previous, cancel, call=call)
        run_id = scheduled_run_id(row, mark)
        start = inputs.StartRun(
            at=self.host.clock.now_ms(),
            run_id=run_id,
            input=timetable.input,
            tenant=row.tenant,
            started_by=starter.principal,
            starter=starter.to_json(),
            untrusted=row.spec.get(UNTRUSTED) is True,
        )
        labels = {"schedule": id_for_callers(row.tenant, row.schedule_id)}
        decision = await self.host.start(start, workflow_hash=workflow.hash, labels=labels, call=call)
        if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
            return NotAllowed(decision.code, decision.message)
        return Started(run_id)


def _why(outcome: FireOutcome) -> str:
    if isinstance(outcome, NotAllowed):
        return f"{outcome.code}: {outcome.message}"
    return outcome.reason if isinstance(outcome, Skipped) else "the previous run must end first"

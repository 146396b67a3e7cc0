"""Schedules: runs that start by the clock.

A schedule has a cron expression in a time zone, and says what happens when the previous run is still going (`overlap`),
how old a missed start may be and still happen (`catch_up`), and how far starts are spread (`jitter`). The id of a
scheduled run is made from the schedule and the moment, so that two processes that both find it due start it once.

Above it: `Penstock`. Below it: `EmbeddedHost`; cron arithmetic is cronsim's. Nothing is kept between two looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias
from zlib import crc32
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from penstock.base.errors import NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Refused
from penstock.runtime.embedded_host import EmbeddedHost
from penstock.runtime.ports import ScheduleRow

__all__ = ["Scheduler", "Timetable", "next_fire_at", "timetable_of"]

_LOOK_SECONDS = 1.0
_CATCH_UP_MS = 60_000  # a start that was missed by more than a minute is skipped unless the schedule says otherwise
_OVERLAPS = ("skip", "queue", "allow", "cancel_running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """A schedule's specification, understood."""

    cron: str
    zone: ZoneInfo
    overlap: str
    catch_up_ms: int
    jitter_ms: int
    input: JsonValue


@dataclass(frozen=True, slots=True)
class Started:
    """A run was started."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """This time no run was started, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Postponed:
    """The previous run must end first."""


FireOutcome: TypeAlias = Started | Skipped | Postponed


def timetable_of(spec: JsonObject) -> Timetable:
    """Understand a specification ``{cron, timezone, overlap, catch_up, jitter, input}``."""
    cron, zone = str(spec.get("cron", "")), str(spec.get("timezone", "UTC"))
    overlap = str(spec.get("overlap", "skip"))
    if overlap not in _OVERLAPS:
        raise Rejected("SCHEDULE_INVALID", f"overlap cannot be {overlap!r}", f"use one of {', '.join(_OVERLAPS)}")
    try:
        CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        hint = "five fields: minute hour day-of-month month day-of-week"
        raise Rejected("SCHEDULE_INVALID", f"{cron!r} is no cron expression: {error}", hint) from None
    try:
        known = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        told = f"{zone!r} is no time zone"
        raise Rejected("SCHEDULE_INVALID", told, "use a name such as Europe/Berlin or UTC") from None
    return Timetable(
        cron=cron,
        zone=known,
        overlap=overlap,
        catch_up_ms=_duration(spec.get("catch_up"), _CATCH_UP_MS),
        jitter_ms=_duration(spec.get("jitter"), 0),
        input=spec.get("input"),
    )


def _duration(value: JsonValue, default: int) -> int:
    if value is None:
        return default
    parsed = parse_native_duration_ms(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if parsed is None:
        raise Rejected("SCHEDULE_INVALID", f"{value!r} is no duration", "write for example 30s, 5m or 1h")
    return parsed


def next_fire_at(schedule_id: str, timetable: Timetable, after_ms: int) -> int | None:
    """The next moment after an instant; None when the expression never comes true again."""
    after = datetime.fromtimestamp(after_ms / 1000, tz=timetable.zone)
    try:
        found = next(CronSim(timetable.cron, after))
    except StopIteration:
        return None
    moment = int(found.timestamp() * 1000)
    if not timetable.jitter_ms:
        return moment
    # Drawn from the schedule and the moment: spread over schedules, the same for every process.
    return moment + crc32(f"{schedule_id}/{moment}".encode()) % timetable.jitter_ms


@dataclass(slots=True, kw_only=True)
class Scheduler:
    """Starts scheduled runs until it is stopped."""

    host: EmbeddedHost
    report: Callable[[str, BaseException], None] = lambda where, error: None
    _task: asyncio.Task[None] | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Begin to look at the clock."""
        self._task = asyncio.ensure_future(self._loop())

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def nudge(self) -> None:
        """Look now: for clocks that are moved by hand."""
        self._wake.set()

    async def put(self, schedule_id: str, workflow_name: str, spec: JsonObject) -> ScheduleRow:
        """Create a schedule or replace its specification; a paused one stays paused."""
        timetable = timetable_of(spec)
        known = {row.schedule_id: row for row in await self.host.store.schedules()}.get(schedule_id)
        if known is not None and known.spec == spec and known.workflow_name == workflow_name:
            return known
        row = ScheduleRow(
            schedule_id=schedule_id,
            workflow_name=workflow_name,
            spec=spec,
            next_at=next_fire_at(schedule_id, timetable, self.host.clock.now_ms()),
            paused=known.paused if known else False,
            last_run_id=known.last_run_id if known else None,
        )
        await self.host.store.put_schedule(row)
        self.nudge()
        return row

    async def put_triggers(self, workflow: Workflow) -> list[ScheduleRow]:
        """Create the schedules that a document's `triggers` ask for."""
        rows = []
        for number, trigger in enumerate(workflow.triggers):
            schedule = trigger.get("schedule")
            if not isinstance(schedule, dict) or trigger.get("enabled") is False:
                continue
            schedule_id = str(trigger.get("id") or f"{workflow.name}:{number}")
            rows.append(await self.put(schedule_id, workflow.name, {**schedule, "input": trigger.get("input")}))
        return rows

    async def pause(self, schedule_id: str, *, paused: bool) -> None:
        """Pause a schedule, or let it go on from now."""
        row = await self._row(schedule_id)
        following = next_fire_at(schedule_id, timetable_of(row.spec), self.host.clock.now_ms())
        await self.host.store.put_schedule(replace(row, paused=paused, next_at=following))
        self.nudge()

    async def run_now(self, schedule_id: str) -> str:
        """Start a run of a schedule at once; its timetable stays as it is."""
        row = await self._row(schedule_id)
        outcome = await self._start(row, timetable_of(row.spec), self.host.clock.now_ms())
        if not isinstance(outcome, Started):
            raise Rejected("SCHEDULE_NOT_STARTED", f"schedule {schedule_id} did not start: {outcome}")
        return outcome.run_id

    async def _row(self, schedule_id: str) -> ScheduleRow:
        for row in await self.host.store.schedules():
            if row.schedule_id == schedule_id:
                return row
        raise NotFound("SCHEDULE_NOT_FOUND", f"there is no schedule {schedule_id}")

    async def _loop(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.fire_due()
            except Exception as error:  # the store may be back in a moment
                self.report("schedules", error)
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def fire_due(self) -> dict[str, FireOutcome]:
        """Start what is due; what became of each schedule that was."""
        now = self.host.clock.now_ms()
        outcomes: dict[str, FireOutcome] = {}
        for row in await self.host.store.schedules():
            if not row.paused and row.next_at is not None and row.next_at <= now:
                outcomes[row.schedule_id] = await self._fire(row, row.next_at, now)
        return outcomes

    async def _fire(self, row: ScheduleRow, moment: int, now: int) -> FireOutcome:
        timetable = timetable_of(row.spec)
        if now - moment > timetable.catch_up_ms:
            following = next_fire_at(row.schedule_id, timetable, now)
            await self.host.store.put_schedule(replace(row, next_at=following))
            return Skipped(f"missed by {(now - moment) // 1000} s")
        outcome = await self._start(row, timetable, moment)
        if isinstance(outcome, Postponed):
            return outcome
        following = next_fire_at(row.schedule_id, timetable, moment)
        last = outcome.run_id if isinstance(outcome, Started) else row.last_run_id
        await self.host.store.put_schedule(replace(row, next_at=following, last_run_id=last))
        return outcome

    async def _start(self, row: ScheduleRow, timetable: Timetable, moment: int) -> FireOutcome:
        previous = await self.host.store.row(row.last_run_id) if row.last_run_id else None
        if previous is not None and not previous.terminal:
            match timetable.overlap:
                case "skip":
                    return Skipped(f"run {previous.run_id} is still going")
                case "queue":
                    return Postponed()
                case "cancel_running":
                    reason = f"the schedule {row.schedule_id} starts again"
                    await self.host.send(previous.run_id, inputs.CancelRun(at=self.host.clock.now_ms(), reason=reason))
                case _:
                    pass
        workflow = await self.host.workflow_named(row.workflow_name)
        if workflow is None:
            return Skipped(f"there is no workflow {row.workflow_name}")
        run_id = f"{row.schedule_id}@{moment}"
        start = inputs.StartRun(at=self.host.clock.now_ms(), run_id=run_id, input=timetable.input)
        labels = {"schedule": row.schedule_id}
        decision = await self.host.start(start, workflow_hash=workflow.hash, labels=labels)
        if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
            return Skipped(f"{decision.code}: {decision.message}")
        return Started(run_id)

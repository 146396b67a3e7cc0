"""Timetables: compute when a schedule starts something, from its specification.

Above it: `scheduler`, which starts runs, and the checks of documents. Below it: cronsim does the cron arithmetic. It
reads no clock and stores nothing.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from zlib import crc32
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_native_duration_ms
from penstock.runtime.ports.runs import ScheduleRow

__all__ = ["ClockStepRepair", "Timetable", "next_fire_at", "next_times", "timetable_of"]

_CATCH_UP_MS = 60_000  # a start missed by more than a minute is skipped, unless the schedule says otherwise
# Number of checks to remember. If a clock was ahead for longer than these took, the starts in between are lost.
_LOOKS_KEPT = 600
_OVERLAPS = ("skip", "queue", "allow", "cancel_running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The parsed specification of a schedule."""

    cron: str
    zone: ZoneInfo
    overlap: str
    catch_up_ms: int
    jitter_ms: int
    input: JsonValue


def timetable_of(spec: JsonObject) -> Timetable:
    """Parse a specification ``{cron, timezone, overlap, catch_up, jitter, input}``."""
    cron, zone = str(spec.get("cron", "")), str(spec.get("timezone", "UTC"))
    overlap = str(spec.get("overlap", "skip"))
    if overlap not in _OVERLAPS:
        raise _invalid("overlap", f"overlap cannot be {overlap!r}", f"use one of {', '.join(_OVERLAPS)}")
    try:
        CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        hint = "five fields: minute hour day-of-month month day-of-week"
        raise _invalid("cron", f"{cron!r} is not a cron expression: {error}", hint) from None
    try:
        known = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones raises an OSError
        message = f"{zone!r} is not a time zone"
        raise _invalid("timezone", message, "use a name such as Europe/Berlin or UTC") from None
    return Timetable(
        cron=cron,
        zone=known,
        overlap=overlap,
        catch_up_ms=_duration(spec, "catch_up", _CATCH_UP_MS),
        jitter_ms=_duration(spec, "jitter", 0),
        input=spec.get("input"),
    )


def _invalid(name: str, message: str, hint: str) -> Rejected:
    """Return the refusal of a specification, which names the member that is wrong."""
    return Rejected("SCHEDULE_INVALID", message, hint, {"errors": [{"pointer": f"/{name}", "message": message}]})


def _duration(spec: JsonObject, name: str, default: int) -> int:
    value = spec.get(name)
    if value is None:
        return default
    parsed = parse_native_duration_ms(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if parsed is None:
        raise _invalid(name, f"{value!r} is not a duration", "write for example 30s, 5m or 1h")
    return parsed


def next_times(timetable: Timetable, after_ms: int, count: int) -> list[datetime]:
    """Return the next times after a time, in the zone of the timetable and without jitter; fewer if it ends."""
    after = datetime.fromtimestamp(after_ms / 1000, tz=timetable.zone)
    return list(islice(CronSim(timetable.cron, after), count))


def next_fire_at(schedule_id: str, timetable: Timetable, after_ms: int) -> int | None:
    """Return the next fire time after a time, or None if the expression never matches again."""
    after = datetime.fromtimestamp(after_ms / 1000, tz=timetable.zone)
    try:
        found = next(CronSim(timetable.cron, after))
    except StopIteration:
        return None
    moment = int(found.timestamp() * 1000)
    if not timetable.jitter_ms:
        return moment
    # Derived from the schedule and the time: it spreads schedules, and is the same in every process.
    return moment + crc32(f"{schedule_id}/{moment}".encode()) % timetable.jitter_ms


@dataclass(slots=True)
class ClockStepRepair:
    """Finds schedules whose next fire time was computed by a clock that was ahead, and corrects it.

    The stored fire time of a schedule cannot be later than the next one after now. A fire time that was found correct
    stays so for as long as the clock goes forward.
    """

    _fitting: dict[str, tuple[int | None, int]] = field(default_factory=dict)  # fire times, and when checked
    _looks: deque[int] = field(default_factory=lambda: deque(maxlen=_LOOKS_KEPT))

    def fits(self, row: ScheduleRow, now: int) -> bool:
        """Whether the stored fire time of a schedule can be correct."""
        next_at, right_at = self._fitting.get(row.schedule_id, (None, now))
        if row.next_at is None or (row.next_at == next_at and right_at <= now):
            return True
        try:
            timetable = timetable_of(row.spec)
        except Rejected:
            return True  # firing it reports what is wrong with it; until then it must not get in the way of the others
        first = next_fire_at(row.schedule_id, dataclasses.replace(timetable, jitter_ms=0), now)
        if first is not None and row.next_at > first + timetable.jitter_ms:
            return False
        self._fitting[row.schedule_id] = row.next_at, now
        return True

    def looked(self, now: int) -> None:
        """Note that everything that was due until now has been handled."""
        self._looks.append(now)

    def next_at(self, row: ScheduleRow, now: int) -> int | None:
        """Return the corrected fire time: after the last check before the clock was ahead, within `catch_up`."""
        timetable = timetable_of(row.spec)
        seen_until = max((look for look in self._looks if look <= now), default=now)
        return next_fire_at(row.schedule_id, timetable, max(seen_until, now - timetable.catch_up_ms))

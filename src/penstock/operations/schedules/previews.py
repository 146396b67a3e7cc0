"""When a schedule would start something, before it is made.

Above it: the catalogue. Below it: `runtime.schedules.timetables`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context
from penstock.operations.schedules.operations import Cron, Zone
from penstock.runtime.schedules.timetables import next_times, timetable_of

__all__ = ["OPERATIONS"]

_COUNT = 5


class PreviewSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a schedule would start something, and how many times to tell."""

    cron: Cron
    timezone: Zone = "UTC"
    count: Annotated[int, Meta(description="How many times to tell.", ge=1, le=limits.SCHEDULE_PREVIEW_TIMES_MAX)] = (
        _COUNT
    )


class ScheduledTime(msgspec.Struct, frozen=True, kw_only=True):
    """A time at which a schedule would start something."""

    at: str
    """In UTC."""
    local: str
    """In the time zone of the schedule, with its offset."""


class SchedulePreview(msgspec.Struct, frozen=True, kw_only=True):
    """The next times; none if the expression never matches again."""

    times: list[ScheduledTime]


@operation(
    "schedule.preview",
    route=Route(method="POST", path="/schedules/preview"),
    scopes=("schedule:read",),
    reads=True,
    errors=("SCHEDULE_INVALID",),
    examples=(Example(arguments={"cron": "30 2 * * *", "timezone": "Europe/Berlin"}),),
)
async def schedule_preview(context: Context, given: PreviewSchedule) -> SchedulePreview:
    """Preview the start times of a schedule.

    Returns the next times of a cron expression in a time zone, so that you see a mistake before you save it. Jitter is
    not included. Nothing is stored.
    """
    timetable = timetable_of({"cron": given.cron, "timezone": given.timezone})
    found = next_times(timetable, context.now_ms(), given.count)
    return SchedulePreview(
        times=[
            ScheduledTime(at=str(instant(int(moment.timestamp() * 1000))), local=moment.isoformat()) for moment in found
        ]
    )


OPERATIONS: tuple[Capability, ...] = (schedule_preview,)

"""What operations on schedule answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.execution import ExecutionSummary
from penstock.client.generated.views.workflow import AuthorView, ProposalView

__all__ = ["SchedulePage", "SchedulePreview", "ScheduleRefusal", "ScheduleView", "ScheduledTime"]


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
    author: AuthorView | None = None
    refused: ScheduleRefusal | None = None


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schedules, by id."""

    items: list[ScheduleView]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class ScheduledTime(msgspec.Struct, frozen=True, kw_only=True):
    """A time at which a schedule would start something."""

    at: str
    local: str


class SchedulePreview(msgspec.Struct, frozen=True, kw_only=True):
    """The next times; none if the expression never matches again."""

    times: list[ScheduledTime]

"""Operations on schedule, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.execution import ExecutionHandle
from penstock.client.generated.views.schedule import SchedulePage, SchedulePreview, ScheduleView
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncSchedules"]


class AsyncSchedules:
    """Operations on schedule."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        workflow_id: str,
        cron: str,
        schedule_id: str | None = None,
        timezone: str | None = None,
        overlap: Literal["allow", "cancel_running", "queue", "skip"] | None = None,
        catch_up: str | None = None,
        jitter: str | None = None,
        input: Any = None,
        paused: bool | None = None,
        idempotency_key: str | None = None,
    ) -> ScheduleView:
        """Schedule a workflow.

        Makes a schedule from a cron expression in a time zone. Each time starts a run of the newest version; find
        these runs with execution.list and the label `schedule`.
        """
        return await self._caller.invoke(
            "schedule.create",
            {
                "workflow_id": workflow_id,
                "cron": cron,
                "schedule_id": schedule_id,
                "timezone": timezone,
                "overlap": overlap,
                "catch_up": catch_up,
                "jitter": jitter,
                "input": input,
                "paused": paused,
            },
            ScheduleView,
            idempotency_key=idempotency_key,
        )

    async def list(
        self, *, workflow_id: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> SchedulePage:
        """List schedules.

        Ordered by id, with the time of the next start and the last run.
        """
        return await self._caller.invoke(
            "schedule.list", {"workflow_id": workflow_id, "limit": limit, "cursor": cursor}, SchedulePage
        )

    async def list_all(
        self, *, workflow_id: str | None = None, limit: int | None = None
    ) -> AsyncIterator[ScheduleView]:
        """List schedules: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages(
            "schedule.list", {"workflow_id": workflow_id, "limit": limit}, SchedulePage
        ):
            for item in page.items:
                yield item

    async def get(self, schedule_id: str) -> ScheduleView:
        """Get a schedule."""
        return await self._caller.invoke("schedule.get", {"schedule_id": schedule_id}, ScheduleView)

    async def update(
        self,
        schedule_id: str,
        *,
        cron: str | None = None,
        timezone: str | None = None,
        overlap: Literal["allow", "cancel_running", "queue", "skip"] | None = None,
        catch_up: str | UnsetType | None = UNSET,
        jitter: str | UnsetType | None = UNSET,
        input: Any = None,
        idempotency_key: str | None = None,
    ) -> ScheduleView:
        """Change a schedule.

        Fields that you leave out stay. The next start is computed again; a paused schedule stays paused.
        """
        return await self._caller.invoke(
            "schedule.update",
            {
                "schedule_id": schedule_id,
                "cron": cron,
                "timezone": timezone,
                "overlap": overlap,
                "catch_up": catch_up,
                "jitter": jitter,
                "input": input,
            },
            ScheduleView,
            idempotency_key=idempotency_key,
        )

    async def delete(self, schedule_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """Delete a schedule.

        Runs that it started stay, and continue.
        """
        return await self._caller.invoke(
            "schedule.delete", {"schedule_id": schedule_id}, Deleted, idempotency_key=idempotency_key
        )

    async def pause(self, schedule_id: str, *, idempotency_key: str | None = None) -> ScheduleView:
        """Pause a schedule.

        It starts nothing until schedule.resume; missed starts are not made up for.
        """
        return await self._caller.invoke(
            "schedule.pause", {"schedule_id": schedule_id}, ScheduleView, idempotency_key=idempotency_key
        )

    async def resume(self, schedule_id: str, *, idempotency_key: str | None = None) -> ScheduleView:
        """Resume a paused schedule.

        It starts runs again, so you need the right to start them.
        """
        return await self._caller.invoke(
            "schedule.resume", {"schedule_id": schedule_id}, ScheduleView, idempotency_key=idempotency_key
        )

    async def run_now(self, schedule_id: str, *, idempotency_key: str | None = None) -> ExecutionHandle:
        """Start a run of a schedule now.

        Uses the input of the schedule and its rule for runs in progress; the timetable does not change.
        """
        return await self._caller.invoke(
            "schedule.run_now", {"schedule_id": schedule_id}, ExecutionHandle, idempotency_key=idempotency_key
        )

    async def preview(self, *, cron: str, timezone: str | None = None, count: int | None = None) -> SchedulePreview:
        """Preview the start times of a schedule.

        Returns the next times of a cron expression in a time zone, so that you see a mistake before you save it.
        Jitter is not included. Nothing is stored.
        """
        return await self._caller.invoke(
            "schedule.preview", {"cron": cron, "timezone": timezone, "count": count}, SchedulePreview
        )

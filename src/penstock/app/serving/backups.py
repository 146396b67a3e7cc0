"""Makes scheduled backups while a server runs, and deletes those that the settings no longer keep.

A backup that fails changes nothing: older ones stay, it is tried again later, the log says so once, and the health of
the server shows it until one succeeds.

Above it: `server`. Below it: the internal operations of `operations.system.backup_schedule`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from penstock.app.settings.model import Settings
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.operations.system.backup_schedule import (
    BACKUP_PRINCIPAL,
    CREATE_SCHEDULED,
    ROTATE,
    BackupDates,
    backup_dates,
    is_due,
    outdated_backups,
)
from penstock.operations.system.health import BACKUPS_CHECK
from penstock.operations.telemetry.metrics import Gauge

__all__ = ["BackupChoices", "BackupKeeper", "BackupStatus", "backup_choices", "keep_backups", "with_backup_check"]

_LOGGER = logging.getLogger("penstock.backups")
Checks = Callable[[], Awaitable[dict[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupChoices:
    """When backups are made, and which ones stay."""

    every_ms: int
    keep: int = limits.BACKUPS_KEPT
    keep_for_ms: int | None = None
    look_seconds: float = limits.BACKUP_LOOK_SECONDS


def backup_choices(settings: Settings) -> BackupChoices | None:
    """Return the schedule of the settings; None if they have no schedule."""
    chosen = settings.storage.backups
    if chosen.every is None:
        return None
    return BackupChoices(
        every_ms=int(chosen.every.total_seconds() * 1000),
        keep=chosen.keep,
        keep_for_ms=None if chosen.keep_for is None else int(chosen.keep_for.total_seconds() * 1000),
    )


@dataclass(slots=True)
class BackupStatus:
    """The status of scheduled backups, for the health and the metrics of a server."""

    made_at: int = 0
    """When any process on this store made the last backup; 0 without a backup."""
    late_since: int | None = None
    failure: str | None = None
    failing_since: int = 0
    failures: int = 0
    size_bytes: int = 0
    seconds: float = 0.0

    def failed(self, reason: str, now: int) -> bool:
        """Note a failure; return whether it is the first in a row."""
        first = self.failure is None
        self.failure, self.failing_since = reason, now if first else self.failing_since
        self.failures += 1
        return first

    def health(self) -> str:
        """Return `ok`, or what is wrong and how old the last backup is."""
        last = f"the last backup was made at {instant(self.made_at)}" if self.made_at else "there is no backup"
        if self.failure is not None:
            return f"failing since {instant(self.failing_since)}: {self.failure}; {last}"
        if self.late_since is not None:
            return f"late since {instant(self.late_since)}; {last}"
        return "ok"

    def gauges(self) -> list[Gauge]:
        """Return the metrics of scheduled backups."""
        return [
            Gauge(
                name="penstock_backup_last_success_timestamp_seconds",
                help="When the last scheduled backup was made; 0 without a backup.",
                read=lambda: {(): self.made_at / 1000},
            ),
            Gauge(
                name="penstock_backup_last_size_bytes",
                help="How large the last scheduled backup of this process is.",
                read=lambda: {(): float(self.size_bytes)},
            ),
            Gauge(
                name="penstock_backup_last_duration_seconds",
                help="How long the last scheduled backup of this process took.",
                read=lambda: {(): self.seconds},
            ),
            Gauge(
                name="penstock_backup_failures",
                help="Scheduled backups that could not be made, and old ones that could not be deleted.",
                kind="counter",
                read=lambda: {(): float(self.failures)},
            ),
        ]


def with_backup_check(checks: Checks, status: BackupStatus) -> Checks:
    """Add the check of scheduled backups to the health checks."""

    async def look() -> dict[str, str]:
        return {**await checks(), BACKUPS_CHECK: status.health()}

    return look


@asynccontextmanager
async def keep_backups(gate: Gate, choices: BackupChoices | None, status: BackupStatus) -> AsyncIterator[None]:
    """Make backups until the block ends. A backup in progress is finished."""
    gate.services.telemetry.gauges.extend(status.gauges())
    if choices is None:
        yield
        return
    task = asyncio.create_task(BackupKeeper(gate, choices, status).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@dataclass(slots=True)
class BackupKeeper:
    """Makes the backups of one server."""

    gate: Gate
    choices: BackupChoices
    status: BackupStatus = field(default_factory=BackupStatus)
    _retry_at: int = 0

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(self.choices.look_seconds)

    async def look(self) -> None:
        """Make the backup that is due and delete old ones. Failures are noted, and tried again later."""
        now = self.gate.services.clock.now_ms()
        if now < self._retry_at <= now + limits.BACKUP_RETRY_MS:
            return
        try:
            if is_due(await self._read_dates(now), now, self.choices.every_ms):
                await self._make()
            await self._rotate()
        except PenstockError as error:
            self._retry_at = now + limits.BACKUP_RETRY_MS
            if error.code == "BACKUP_RUNNING":
                return  # somebody asked for one, which is being made
            if self.status.failed(f"{error.code}: {error.message}", now):
                _LOGGER.error("scheduled backups fail: %s; trying again", error)  # noqa: TRY400  # known errors
        else:
            self.status.failure = None

    async def _read_dates(self, now: int) -> BackupDates:
        dates = await backup_dates(self.gate.services)
        self.status.made_at = dates.made_at
        # Two attempts may fail, and another process may be at it, before the backup is called late.
        late_at = (dates.made_at or dates.begun_at) + self.choices.every_ms + 2 * limits.BACKUP_RETRY_MS
        self.status.late_since = late_at if dates.begun_at and late_at < now else None
        return dates

    async def _make(self) -> None:
        began = time.perf_counter()
        arguments: JsonObject = {"every_ms": self.choices.every_ms}
        made = (await internal_call(self.gate, BACKUP_PRINCIPAL, CREATE_SCHEDULED, arguments)).backup
        if made is not None:
            self.status.size_bytes, self.status.seconds = made.size_bytes, time.perf_counter() - began
            _LOGGER.info("backed up to %s, %d bytes", made.name, made.size_bytes)
            await self._read_dates(self.gate.services.clock.now_ms())

    async def _rotate(self) -> None:
        keep, keep_for_ms = self.choices.keep, self.choices.keep_for_ms
        if await outdated_backups(self.gate.services, keep=keep, keep_for_ms=keep_for_ms):
            await internal_call(self.gate, BACKUP_PRINCIPAL, ROTATE, {"keep": keep, "keep_for_ms": keep_for_ms})

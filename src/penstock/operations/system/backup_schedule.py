"""The internal calls of the backup schedule: make a backup that is due, and delete the oldest ones of the schedule.

The principal is `system:backups` in the default tenant. Several servers may share a store: the one that claims a backup
first makes it. A file is deleted only if this store knows that the schedule made it, and if it looks unchanged. So
backups that somebody requested stay, and so do files of other servers.

Above it: `app.serving.backups` decides when to look. Below it: `backups`.
"""

from __future__ import annotations

import msgspec

from penstock.base import limits
from penstock.operations.catalogue.capability import Capability, Reply
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Services
from penstock.operations.gate.internal_callers import system_principal
from penstock.operations.system.backups import (
    BACKUP_NOTES,
    BackupView,
    backup_folder,
    known_backups,
    make_backup,
    unchanged,
)
from penstock.runtime.ports.backups import BackupFile
from penstock.runtime.ports.platform import ResourceChanged, ResourceRow
from penstock.runtime.tables.call_records import record_call
from penstock.runtime.tables.resources import put_resource, read_resource

__all__ = [
    "BACKUP_PRINCIPAL",
    "CREATE_SCHEDULED",
    "OPERATIONS",
    "ROTATE",
    "BackupDates",
    "backup_dates",
    "is_due",
    "outdated_backups",
]

CREATE_SCHEDULED = "backup.create_scheduled"
ROTATE = "backup.rotate"
BACKUP_PRINCIPAL = system_principal("backups", "backup:write")
_SCHEDULE = "schedule"
"""The resource that says when the schedule last began a backup, and when it last finished one."""


class BackupDates(msgspec.Struct, frozen=True, kw_only=True):
    """When the schedule last began a backup and last finished one, in epoch milliseconds; 0 means never."""

    begun_at: int = 0
    made_at: int = 0


class CreateScheduled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often backups are made."""

    every_ms: int


class Rotate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which backups of the schedule stay: the newest ones, and all that are younger than `keep_for_ms`."""

    keep: int
    keep_for_ms: int | None


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """The backup that was made; null if another process makes it."""

    backup: BackupView | None


class Rotated(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the files that were to be deleted."""

    names: list[str]


async def backup_dates(services: Services) -> BackupDates:
    """Return when the schedule of a store last did something."""
    return _dates_in(await _stored_dates(services))


def is_due(dates: BackupDates, now: int, every_ms: int) -> bool:
    """Whether the next backup is due. A date in the future counts as never: the clock was set back."""
    made_at = dates.made_at if dates.made_at <= now else 0
    begun_at = dates.begun_at if dates.begun_at <= now else 0
    # A backup that was begun and not finished is begun again later: its process may still be at work.
    waits = begun_at > made_at and now - begun_at < min(every_ms, limits.BACKUP_RETRY_MS)
    return not waits and now - made_at >= every_ms


async def outdated_backups(services: Services, *, keep: int, keep_for_ms: int | None) -> tuple[BackupFile, ...]:
    """Return the backups of the schedule that are no longer kept."""
    if services.backups is None:
        return ()
    known, now = await known_backups(services), services.clock.now_ms()
    files = {file.name: file for file in await services.backups.files()}
    # In the order in which they were noted: a clock that was set back must not make the newest one the oldest.
    own = [files[name] for name, seen in known.items() if name in files and seen.by == BACKUP_PRINCIPAL.id]
    own = [file for file in own if file.scheduled and unchanged(file, known) is not None]
    return tuple(file for file in own[:-keep] if keep_for_ms is None or now - file.at >= keep_for_ms)


@operation(
    CREATE_SCHEDULED,
    route=None,
    scopes=("backup:write",),
    risk="high",
    bucket="admin",
    errors=(
        "NOT_CONFIGURED",
        "BACKUP_RUNNING",
        "BACKUP_EXISTS",
        "BACKUP_FOLDER_FULL",
        "BACKUP_FOLDER_UNAVAILABLE",
        "BACKUP_NO_ROOM",
        "PRECONDITION_FAILED",
    ),
)
async def create_scheduled(context: Context, given: CreateScheduled) -> Reply[Scheduled]:
    """Make the backup that the schedule wants, unless another process makes it."""
    folder = backup_folder(context)
    was = await _stored_dates(context.services)
    dates, begun_at = _dates_in(was), context.now_ms()
    if not is_due(dates, begun_at, given.every_ms):
        return Reply(value=Scheduled(backup=None))
    claimed = await _store_dates(context, was, BackupDates(begun_at=begun_at, made_at=dates.made_at))
    if claimed is None:
        return Reply(value=Scheduled(backup=None))
    made = await make_backup(context, folder, scheduled=True)
    # If this fails, or the process ends before it, the next look makes one backup more.
    await _store_dates(context, claimed, BackupDates(begun_at=begun_at, made_at=begun_at))
    return Reply(value=Scheduled(backup=made.value))


@operation(
    ROTATE,
    route=None,
    scopes=("backup:write",),
    destructive=True,
    risk="high",
    bucket="admin",
    errors=("NOT_CONFIGURED", "BACKUP_FOLDER_UNAVAILABLE"),
)
async def rotate(context: Context, given: Rotate) -> Reply[Rotated]:
    """Delete backups of the schedule that are no longer kept. They are on record before they are deleted."""
    old = await outdated_backups(context.services, keep=given.keep, keep_for_ms=given.keep_for_ms)
    reply = Reply(value=Rotated(names=[file.name for file in old]))
    if old:
        context.call.each((file.name, {"size_bytes": file.size_bytes}) for file in old)
        await record_call(context.services.platform, idempotency.answered(context, reply))
        await backup_folder(context).remove(old)
    return reply


async def _stored_dates(services: Services) -> ResourceRow | None:
    return await read_resource(services.platform, BACKUP_PRINCIPAL.tenant, BACKUP_NOTES.kind, _SCHEDULE)


def _dates_in(row: ResourceRow | None) -> BackupDates:
    return BackupDates() if row is None else msgspec.convert(row.body, BackupDates)


async def _store_dates(context: Context, was: ResourceRow | None, dates: BackupDates) -> ResourceRow | None:
    """Store the dates in place of those that were read; None if another process was faster."""
    row = BACKUP_NOTES.row(context, _SCHEDULE, msgspec.to_builtins(dates), was=was)
    expected = None if was is None else was.etag
    outcome = await put_resource(context.services.platform, row, expected_etag=expected)
    return None if isinstance(outcome, ResourceChanged) else row


OPERATIONS: tuple[Capability, ...] = (create_scheduled, rotate)

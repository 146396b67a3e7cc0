"""Operations on backups that the server makes by itself: make one, list them.

A backup has everything of every tenant, so both are for the operator alone. Callers name neither a file nor a folder.
The store keeps which files were verified, and how they looked then: a file that looks different is not called verified.

Above it: the catalogue, `backup_schedule`. Below it: the folder for backups, `stored_resources`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, Unavailable
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context, Services
from penstock.operations.stored_resources import ResourceTable
from penstock.runtime.ports.backups import BackupFile, BackupFolder
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.tables.resources import read_resource

__all__ = [
    "BACKUP_NOTES",
    "OPERATIONS",
    "BackupView",
    "KnownBackups",
    "Verified",
    "backup_folder",
    "known_backups",
    "make_backup",
    "unchanged",
]

BACKUP_NOTES = ResourceTable(kind="backup", noun="backup")
_VERIFIED = "verified"
"""The one resource that says which files were verified. Files that are gone leave it with the next backup."""
_STORE_ATTEMPTS = 5


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """How a file looked when it was verified, and what was found in it."""

    size_bytes: int
    modified_ns: int
    at: int
    by: str
    runs: int
    format_version: int


KnownBackups: TypeAlias = dict[str, Verified]


class CreateBackup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


class ListBackups(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing to choose."""


class BackupView(msgspec.Struct, frozen=True, kw_only=True):
    """A backup. What was found in it is known only while it is as it was when it was verified."""

    name: str
    created_at: str | None
    size_bytes: int
    verified: bool
    """Whether the server verified it, and it looks the same since."""
    verified_at: str | None
    scheduled: bool
    """Whether the schedule made it, as its name says. The server deletes scheduled backups that it no longer keeps."""
    created_by: str | None
    runs: int | None
    format_version: int | None


class BackupListing(msgspec.Struct, frozen=True, kw_only=True):
    """The backups in the folder, the newest first. `folder` is null if none is set."""

    folder: str | None
    total: int
    items: list[BackupView]


@operation(
    "backup.create",
    route=Route(method="POST", path="/backups", status=201),
    scopes=("backup:write",),
    risk="high",
    bucket="admin",
    errors=(
        "OPERATOR_REQUIRED",
        "NOT_CONFIGURED",
        "BACKUP_RUNNING",
        "BACKUP_EXISTS",
        "BACKUP_FOLDER_FULL",
        "BACKUP_FOLDER_UNAVAILABLE",
        "BACKUP_NO_ROOM",
        "PRECONDITION_FAILED",
    ),
)
async def backup_create(context: Context, given: CreateBackup) -> Reply[BackupView]:
    """Make a backup of the whole store.

    Copies one consistent moment of the data of all tenants while the server runs, verifies the copy, and then gives it
    its name. The backup is in the folder of the settings, named by the time. The server never deletes a backup that you
    asked for. The secret beside the store is not included.
    """
    _refuse_tenants(context)
    return await make_backup(context, backup_folder(context))


def backup_folder(context: Context) -> BackupFolder:
    """Return the folder for backups; raise if the settings name none."""
    folder = context.services.backups
    if folder is None:
        message = "the settings name no folder for backups"
        hint = "set `storage.backup_folder`, or run `penstock server backup FILE` on the machine of the server"
        raise Unavailable("NOT_CONFIGURED", message, hint)
    return folder


async def make_backup(context: Context, folder: BackupFolder, *, scheduled: bool = False) -> Reply[BackupView]:
    """Make a backup, and store what is known of it with the audit record of the call."""
    made = await folder.create(context.now_ms(), scheduled=scheduled)
    seen = Verified(
        size_bytes=made.file.size_bytes,
        modified_ns=made.file.modified_ns,
        at=context.now_ms(),
        by=context.principal.id,
        runs=made.runs,
        format_version=made.format_version,
    )
    reply = Reply(value=_view(made.file, seen), status=201)
    context.call.about(made.file.name, size_bytes=made.file.size_bytes, runs=made.runs)
    await _remember(context, folder, made.file.name, seen, reply)
    return reply


@operation(
    "backup.list",
    route=Route(method="GET", path="/backups"),
    scopes=("backup:read",),
    reads=True,
    bucket="admin",
    errors=("OPERATOR_REQUIRED", "BACKUP_FOLDER_UNAVAILABLE"),
)
async def backup_list(context: Context, given: ListBackups) -> BackupListing:
    """List the backups in the folder of the settings.

    A file counts as verified if the server verified it, and its size and time are unchanged since. After a restore,
    backups that are newer than the restored one are unknown.
    """
    _refuse_tenants(context)
    folder = context.services.backups
    if folder is None:
        return BackupListing(folder=None, total=0, items=[])
    files = await folder.files()
    known = await known_backups(context.services)
    shown = files[: limits.BACKUPS_MAX + limits.BACKUPS_SCHEDULED_MAX]
    items = [_view(file, unchanged(file, known)) for file in shown]
    return BackupListing(folder=folder.path, total=len(files), items=items)


def _refuse_tenants(context: Context) -> None:
    if not context.is_operator:
        message = "a backup contains the data of every tenant, so only the operator of the server may make one"
        raise Denied("OPERATOR_REQUIRED", message, "ask the operator")


async def known_backups(services: Services) -> KnownBackups:
    """Return what the store knows of the files that the server verified, by their names, the last one last."""
    return _known_in(await _stored(services))


async def _stored(services: Services) -> ResourceRow | None:
    # Only the operator makes backups, and the operator is in the default tenant.
    return await read_resource(services.platform, DEFAULT_TENANT, BACKUP_NOTES.kind, _VERIFIED)


def _known_in(row: ResourceRow | None) -> KnownBackups:
    return {} if row is None else msgspec.convert(row.body["files"], KnownBackups)


async def _remember(
    context: Context, folder: BackupFolder, name: str, seen: Verified, reply: Reply[BackupView]
) -> None:
    """Store that a file was verified, with the answer and the audit record of the call."""
    present = {file.name for file in await folder.files()}
    for _ in range(_STORE_ATTEMPTS):
        was = await _stored(context.services)
        known = {other: found for other, found in _known_in(was).items() if other in present}
        body: JsonObject = {"files": msgspec.to_builtins({**known, name: seen})}
        row = BACKUP_NOTES.row(context, _VERIFIED, body, was=was)
        if await BACKUP_NOTES.put(context, row, None if was is None else was.etag, reply) is None:
            return
    # Other processes on this store made backups at the same time, again and again.
    message = f"{name} was made and verified, but could not be recorded"
    raise Conflict("PRECONDITION_FAILED", message, "make another backup")


def unchanged(file: BackupFile, known: KnownBackups) -> Verified | None:
    """Return what is known of a file, unless the file was changed or replaced since."""
    seen = known.get(file.name)
    if seen is None or (file.size_bytes, file.modified_ns) != (seen.size_bytes, seen.modified_ns):
        return None
    return seen


def _view(file: BackupFile, seen: Verified | None) -> BackupView:
    return BackupView(
        name=file.name,
        created_at=instant(file.at),
        size_bytes=file.size_bytes,
        verified=seen is not None,
        verified_at=None if seen is None else instant(seen.at),
        scheduled=file.scheduled,
        created_by=None if seen is None else seen.by,
        runs=None if seen is None else seen.runs,
        format_version=None if seen is None else seen.format_version,
    )


OPERATIONS: tuple[Capability, ...] = (backup_create, backup_list)

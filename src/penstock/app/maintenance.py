"""Maintenance of the store file: back it up, restore it, check it, migrate it, vacuum it.

A restored file contains a note that it was restored; the note is written before the file replaces the old one. A gate
records the note in the audit log at once, if the secret of the file is available and the file has this release's
format. Otherwise the first process that opens the file does.

Above it: the command line. Below it: the SQLite adapters, which only `app` may name; `gate`.
"""

from __future__ import annotations

from pathlib import Path

from penstock.app.gate import open_gate
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.app.pepper import FINGERPRINT_MARK
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.runtime.ports.backups import BackupFile
from penstock.runtime.ports.platform import RESTORED_MARK
from penstock.runtime.stores.sqlite.maintenance.backup_folder import SqliteBackupFolder
from penstock.runtime.stores.sqlite.maintenance.backups import (
    BackupResult,
    RestoreResult,
    StoreStats,
    backup,
    check_integrity,
    read_mark,
    restore,
    stats,
)
from penstock.runtime.stores.sqlite.maintenance.integrity import IntegrityProblem, IntegrityReport
from penstock.runtime.stores.sqlite.maintenance.migration import Migration, migrate_file, plan_migration
from penstock.runtime.stores.sqlite.schema.log_notes import accept_missing_log
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from penstock.runtime.stores.sqlite.schema.vacuum import VacuumResult, vacuum
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.resources import read_mark as read_database_mark

__all__ = [
    "BackupFile",
    "BackupResult",
    "IntegrityProblem",
    "IntegrityReport",
    "Migration",
    "RestoreResult",
    "StoreStats",
    "VacuumResult",
    "accept_missing_log",
    "back_up_store",
    "backup_files",
    "check_store",
    "migrate_store",
    "plan_store_migration",
    "restore_on_record",
    "store_fingerprint",
    "store_stats",
    "vacuum_store",
]


def back_up_store(path: Path, target: Path, *, overwrite: bool = False) -> BackupResult:
    """Copy the file while it is in use. The copy is verified before this returns."""
    return backup(path, target, overwrite=overwrite)


async def backup_files(path: Path, folder: str) -> tuple[BackupFile, ...]:
    """The files in the folder of a server that are named like backups, the newest first. None is opened."""
    return await SqliteBackupFolder(path, folder).files()


async def restore_on_record(
    source: Path, path: Path, *, force: bool = False, pepper_file: Path | None = None
) -> tuple[RestoreResult, str | None]:
    """Restore a backup. Returns the result, and why it is not in the audit log yet, if it is not."""
    note: JsonObject = {"by": os_user().principal_id, "at": SystemClock().now_ms(), "source": source.name}
    done = restore(source, path, force=force, note=note)
    if done.format_version != SCHEMA_VERSION:
        return done, f"it has the format {done.format_version} of an older release, which this does not change"
    try:
        async with Penstock.open(path, perform=False) as penstock, open_gate(penstock, pepper_file=pepper_file) as gate:
            pending = await read_database_mark(gate.services.platform, RESTORED_MARK)
    except PenstockError as error:
        return done, str(error)
    return done, None if pending is None else "its audit record cannot be written"


def check_store(path: Path) -> IntegrityReport:
    """Find every problem of the file and of the runs in it."""
    return check_integrity(path)


def store_fingerprint(path: Path) -> str | None:
    """The fingerprint of the secret that sealed the file; None if nothing in it is sealed."""
    found = read_mark(path, FINGERPRINT_MARK)
    return found if isinstance(found, str) else None


def store_stats(path: Path) -> StoreStats:
    """Count what the file holds."""
    return stats(path)


def plan_store_migration(path: Path) -> Migration:
    """Say what migrating the file would do, and change nothing."""
    return plan_migration(path)


def migrate_store(path: Path) -> Migration:
    """Bring the file to the format of this release."""
    return migrate_file(path)


def vacuum_store(path: Path) -> VacuumResult:
    """Rewrite the file without free space. Nobody else may have it open."""
    return vacuum(path)

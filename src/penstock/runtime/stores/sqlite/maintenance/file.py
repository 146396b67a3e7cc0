"""The maintenance of one SQLite file, as the port `runtime.ports.maintenance` asks for it.

Most commands need one of these modules, and a glance must not take the time that it takes to import the others.

Above it: `app.drivers`. Below it: the other modules of this package, each imported when it is first used.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from penstock.runtime.ports.backups import BackupFolder
    from penstock.runtime.ports.maintenance import (
        BackupResult,
        IntegrityReport,
        Migration,
        RestoreResult,
        StoredTrails,
        StoreGlance,
        StoreStats,
        VacuumResult,
    )
    from penstock.runtime.stores.sqlite.maintenance import backup_folder, backups, glance, migration, trails
    from penstock.runtime.stores.sqlite.schema import log_notes, vacuum
else:
    backup_folder = lazy_import("penstock.runtime.stores.sqlite.maintenance.backup_folder")
    backups = lazy_import("penstock.runtime.stores.sqlite.maintenance.backups")
    glance = lazy_import("penstock.runtime.stores.sqlite.maintenance.glance")
    migration = lazy_import("penstock.runtime.stores.sqlite.maintenance.migration")
    trails = lazy_import("penstock.runtime.stores.sqlite.maintenance.trails")
    log_notes = lazy_import("penstock.runtime.stores.sqlite.schema.log_notes")
    vacuum = lazy_import("penstock.runtime.stores.sqlite.schema.vacuum")

__all__ = ["FileMaintenance", "is_database_file"]

_HEADER = b"SQLite format 3\0"


def is_database_file(path: Path) -> bool:
    """Whether a file begins as databases do. Only for files that this process does not have open."""
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER


class FileMaintenance:
    """The maintenance of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exists(self) -> bool:
        """Return whether the file has contents: opening an empty one would make it a database."""
        try:
            return self._path.stat().st_size > 0
        except OSError:
            return False

    def files(self) -> tuple[Path, ...]:
        """Return the file, its log and the index of the log."""
        return self._path, *(Path(f"{self._path}{suffix}") for suffix in ("-wal", "-shm"))

    def backup(self, target: Path, *, overwrite: bool = False) -> BackupResult:
        """Copy the file while it is in use."""
        return backups.backup(self._path, target, overwrite=overwrite)

    def backup_folder(self, folder: str) -> BackupFolder:
        """Return the backups of this file in a folder."""
        return backup_folder.SqliteBackupFolder(self._path, folder)

    def restore(self, source: Path, *, force: bool = False, note: JsonObject | None = None) -> RestoreResult:
        """Replace the file with a backup; the old one is kept beside it."""
        return backups.restore(source, self._path, force=force, note=note)

    def check(self) -> IntegrityReport:
        """Find every problem of the file and of the runs in it."""
        return backups.check_integrity(self._path)

    def accept_missing_log(self) -> None:
        """Continue with what is in the file."""
        log_notes.accept_missing_log(str(self._path))

    def stats(self) -> StoreStats:
        """Count what the file holds."""
        return backups.stats(self._path)

    def mark(self, name: str) -> JsonValue:
        """Return the small value under a name; None without one, as in the oldest files."""
        return backups.read_mark(self._path, name)

    def plan_migration(self) -> Migration:
        """Say what migrating would do, and change nothing."""
        return migration.plan_migration(self._path)

    def migrate(self) -> Migration:
        """Bring the file to the format of this release."""
        return migration.migrate_file(self._path)

    def vacuum(self) -> VacuumResult:
        """Rewrite the file without free pages."""
        return vacuum.vacuum(self._path)

    def trails(self) -> AbstractContextManager[StoredTrails]:
        """Open the audit trails of a file in the format of this release."""
        return trails.open_trails(self._path)

    def glance(self, *, failed_since: int, now: int) -> StoreGlance:
        """Look at the file without opening it as a store."""
        return glance.glance_at(self._path, failed_since=failed_since, now=now)

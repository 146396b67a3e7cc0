"""Looking after the file that holds the runs: copy it, put a copy back, see whether it is sound, write it anew.

Above it: the command line. Below it: the SQLite store, whose name only this layer may say.
"""

from __future__ import annotations

from pathlib import Path

from penstock.app.pepper import FINGERPRINT_MARK
from penstock.base.json import JsonObject
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
from penstock.runtime.stores.sqlite.schema.vacuum import VacuumResult, vacuum

__all__ = [
    "BackupResult",
    "IntegrityProblem",
    "IntegrityReport",
    "RestoreResult",
    "StoreStats",
    "VacuumResult",
    "back_up_store",
    "check_store",
    "restore_store",
    "store_fingerprint",
    "store_stats",
    "vacuum_store",
]


def back_up_store(path: Path, target: Path, *, overwrite: bool = False) -> BackupResult:
    """Copy the file while it is in use; the copy was checked when this returns."""
    return backup(path, target, overwrite=overwrite)


def restore_store(source: Path, path: Path, *, force: bool = False, note: JsonObject | None = None) -> RestoreResult:
    """Put a backup in the place of the file, with a note of that in it; nobody may have it open.

    What was there is kept.
    """
    return restore(source, path, force=force, note=note)


def check_store(path: Path) -> IntegrityReport:
    """Everything that is wrong with the file and with the runs in it."""
    return check_integrity(path)


def store_fingerprint(path: Path) -> str | None:
    """The fingerprint of the secret that sealed the file; None if nothing was sealed in it."""
    found = read_mark(path, FINGERPRINT_MARK)
    return found if isinstance(found, str) else None


def store_stats(path: Path) -> StoreStats:
    """What the file holds, in numbers."""
    return stats(path)


def vacuum_store(path: Path) -> VacuumResult:
    """Write the file anew without free space; nobody may have it open."""
    return vacuum(path)

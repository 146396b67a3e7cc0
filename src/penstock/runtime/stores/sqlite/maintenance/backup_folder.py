"""Backups of the store of a running server, in one folder: named by the time, one at a time.

The copies are made and listed in threads. Listing opens none of them: closing a file in any other way than through
SQLite would drop the locks of this process, and the store itself may be in the same folder.

Above it: `file`. Below it: `backups`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from penstock.base import limits
from penstock.base.errors import Conflict, Unavailable
from penstock.runtime.ports.backups import BackupFile, BackupMade
from penstock.runtime.stores.sqlite.maintenance.backups import backup

__all__ = ["SqliteBackupFolder"]

_NAME = re.compile(r"penstock-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})Z(-scheduled)?\.db", re.ASCII)
_MOMENT = "%Y-%m-%dT%H-%M-%S.%f"
_SCHEDULED = "-scheduled"
_UNFINISHED = ".penstock-*.part*"


class SqliteBackupFolder:
    """The backups of one store in one folder."""

    def __init__(self, store: str | Path, folder: str | Path) -> None:
        self._store = Path(store)
        self._folder = Path(folder)
        self._making = threading.Lock()

    @property
    def path(self) -> str:
        """The folder, as the operator named it."""
        return str(self._folder)

    async def create(self, at: int, *, scheduled: bool = False) -> BackupMade:
        """Copy the store as it is now and verify the copy; raise if another backup is being made."""
        return await asyncio.to_thread(self._create, at, scheduled)

    async def files(self) -> tuple[BackupFile, ...]:
        """Return every file that is named like a backup, the newest first."""
        return await asyncio.to_thread(self._files)

    async def remove(self, files: tuple[BackupFile, ...]) -> tuple[str, ...]:
        """Delete files that still look as described. Returns the names of those that it deleted."""
        return await asyncio.to_thread(self._remove, files)

    def _create(self, at: int, scheduled: bool) -> BackupMade:
        # The thread holds the lock, not the task: a task that was cancelled leaves its thread behind.
        if not self._making.acquire(blocking=False):
            message = "another backup is being made"
            raise Conflict("BACKUP_RUNNING", message, "wait for it; backup.list shows it once it is verified")
        try:
            self._refuse_a_full_folder(scheduled=scheduled)
            self._remove_unfinished()
            self._refuse_a_full_disk()
            target = self._folder / _name(at, scheduled=scheduled)
            made = backup(self._store, target)
            return BackupMade(file=_described(target, at), runs=made.runs, format_version=made.format_version)
        except OSError as error:
            raise self._unavailable(error) from error
        finally:
            self._making.release()

    def _refuse_a_full_folder(self, *, scheduled: bool) -> None:
        kept = sum(file.scheduled == scheduled for file in self._files())
        if kept >= (limits.BACKUPS_SCHEDULED_MAX if scheduled else limits.BACKUPS_MAX):
            kind = "scheduled backups" if scheduled else "backups"
            message = f"{self._folder} has {kept} {kind}, and the server deletes only those that it made"
            raise Conflict("BACKUP_FOLDER_FULL", message, "move older ones elsewhere, or delete them")

    def _remove(self, files: tuple[BackupFile, ...]) -> tuple[str, ...]:
        present, removed = set(self._files()), []
        try:
            for file in files:
                if file in present:
                    (self._folder / file.name).unlink(missing_ok=True)
                    removed.append(file.name)
        except OSError as error:
            message = f"old backups in {self._folder} cannot be deleted: {error.strerror}"
            raise Unavailable(
                "BACKUP_FOLDER_UNAVAILABLE", message, "give the server write access to the folder"
            ) from error
        return tuple(removed)

    def _files(self) -> tuple[BackupFile, ...]:
        found = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    at = _time_in(entry.name)
                    if at is None or not entry.is_file(follow_symlinks=False):
                        continue
                    with suppress(FileNotFoundError):  # it was moved away just now
                        found.append(_described(Path(entry.path), at))
        except OSError as error:
            raise self._unavailable(error) from error
        return tuple(sorted(found, key=lambda file: (file.at, file.name), reverse=True))

    def _unavailable(self, error: OSError) -> Unavailable:
        message = f"the folder for backups, {self._folder}, cannot be used: {error.strerror}"
        # It is not made here: if a disk is not mounted, the backups would go to another one.
        hint = "make the folder, mount its disk, or change `storage.backup_folder`"
        return Unavailable("BACKUP_FOLDER_UNAVAILABLE", message, hint)

    def _remove_unfinished(self) -> None:
        """Delete what processes that were killed left behind."""
        newest = time.time() - limits.BACKUP_UNFINISHED_SECONDS
        for path in self._folder.glob(_UNFINISHED):
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < newest:
                    path.unlink()

    def _refuse_a_full_disk(self) -> None:
        """Refuse before anything is copied: on the disk of the store, a copy that fills it would stop the server."""
        wanted = sum(path.stat().st_size for path in (self._store, Path(f"{self._store}-wal")) if path.exists())
        free = shutil.disk_usage(self._folder).free
        if free < wanted + limits.DISK_FREE_BYTES_MIN:
            message = f"{self._folder} has {free:,} bytes free, and a backup needs about {wanted:,}"
            raise Unavailable("BACKUP_NO_ROOM", message, "free some space, or choose a folder on another disk")


def _name(at: int, *, scheduled: bool) -> str:
    moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return f"penstock-{moment.strftime(_MOMENT)[:-3]}Z{_SCHEDULED if scheduled else ''}.db"


def _time_in(name: str) -> int | None:
    """The time in the name of a backup, in epoch milliseconds; None for other files."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        moment = datetime.strptime(found[1], _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000


def _described(path: Path, at: int) -> BackupFile:
    found = path.lstat()
    return BackupFile(
        name=path.name,
        at=at,
        size_bytes=found.st_size,
        scheduled=path.stem.endswith(_SCHEDULED),
        modified_ns=found.st_mtime_ns,
    )

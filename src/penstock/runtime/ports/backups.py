"""Backups of a whole store that a server makes by itself, in a folder that its operator named.

Above it: `operations.system.backups`, stores. Below it: nothing.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["BackupFile", "BackupFolder", "BackupMade"]


class BackupFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the folder that is named like a backup. Whether it still is one, its name and size do not tell."""

    name: str
    at: int
    """When it was made, as its name says, in epoch milliseconds."""
    size_bytes: int
    scheduled: bool = False
    """Whether its name says that the schedule made it."""
    modified_ns: int
    """When its contents last changed, as the file system says: another time than at first means another content."""


class BackupMade(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made and verified."""

    file: BackupFile
    runs: int
    format_version: int


class BackupFolder(Protocol):
    """Where backups are made. The folder decides how they are called; no caller does."""

    @property
    def path(self) -> str:
        """The folder, as the operator named it."""

    async def create(self, at: int, *, scheduled: bool = False) -> BackupMade:
        """Copy the store as it is now and verify the copy. Only a verified copy gets the name of a backup."""

    async def files(self) -> tuple[BackupFile, ...]:
        """Return every file that is named like a backup, the newest first."""

    async def remove(self, files: tuple[BackupFile, ...]) -> tuple[str, ...]:
        """Delete files that still look as described. Returns the names of those that it deleted."""

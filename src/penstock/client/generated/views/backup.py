"""What operations on backup answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["BackupListing", "BackupView"]


class BackupView(msgspec.Struct, frozen=True, kw_only=True):
    """A backup. What was found in it is known only while it is as it was when it was verified."""

    name: str
    created_at: str | None
    size_bytes: int
    verified: bool
    verified_at: str | None
    scheduled: bool
    created_by: str | None
    runs: int | None
    format_version: int | None


class BackupListing(msgspec.Struct, frozen=True, kw_only=True):
    """The backups in the folder, the newest first. `folder` is null if none is set."""

    folder: str | None
    total: int
    items: list[BackupView]

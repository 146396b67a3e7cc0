"""Settings of the audit log: how long records are kept, and when and where they are signed.

Above it: `model`. Below it: `declarations`.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from datetime import timedelta
from typing import Annotated

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import PATH, URL
from penstock.base import limits

__all__ = ["AuditSettings", "CheckpointSettings", "TimestampSettings"]


class TimestampSettings(Struct, frozen=True, kw_only=True):
    """A time-stamping authority (RFC 3161) that stamps checkpoints; needs the extra `timestamp`."""

    url: Annotated[str | None, Field("The address of the authority; without it, nothing is stamped.", format=URL)] = (
        None
    )
    certificates: Annotated[
        str | None,
        Field("A PEM file with its certificates; a stamp that they do not verify is discarded.", format=PATH),
    ] = None


class CheckpointSettings(Struct, frozen=True, kw_only=True):
    """Signed checkpoints of audit trails: when they are made, and where they are written beside the database."""

    every_entries: Annotated[
        int, Field("Sign a trail when it has this many new records.", minimum=1, maximum=1_000_000)
    ] = limits.AUDIT_CHECKPOINT_ENTRIES
    every: Annotated[timedelta, Field("Sign a trail with new records at least this often.", minimum=1)] = timedelta(
        milliseconds=limits.AUDIT_CHECKPOINT_MS
    )
    files: Annotated[tuple[str, ...], Field("Files to which checkpoints are appended.", format=PATH)] = ()
    webhooks: Annotated[tuple[str, ...], Field("Addresses to which checkpoints are posted.", format=URL)] = ()
    git_folders: Annotated[
        tuple[str, ...],
        Field("Folders that get a file for each checkpoint; in a Git repository it is committed.", format=PATH),
    ] = ()
    timestamp: TimestampSettings = TimestampSettings()


class AuditSettings(Struct, frozen=True, kw_only=True):
    """The audit log of calls."""

    retention: Annotated[
        timedelta | None, Field("How long audit records are kept; null means forever.", minimum=60)
    ] = None
    checkpoints: CheckpointSettings = CheckpointSettings()

"""Putting a backup in the place of a store, so that the store says so.

The note of it is in the new file before that takes the place of the old one: there is no moment at which a restored
file says nothing. A gate on it puts the note on record at once, if the secret of the file is there and the file has
this release's format; otherwise the first process does that opens it.

Above it: the command line. Below it: `maintenance`, `gateway`.
"""

from __future__ import annotations

from pathlib import Path

from penstock.app.gateway import open_gate
from penstock.app.maintenance import RestoreResult, restore_store
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.runtime.ports.platform import RESTORED_MARK
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION
from penstock.runtime.system import SystemClock

__all__ = ["restore_on_record"]


async def restore_on_record(
    source: Path, path: Path, *, force: bool = False, pepper_file: Path | None = None
) -> tuple[RestoreResult, str | None]:
    """Restore a backup; what was done, and why that is not on record yet, if it is not."""
    note: JsonObject = {"by": os_user().principal_id, "at": SystemClock().now_ms(), "source": source.name}
    done = restore_store(source, path, force=force, note=note)
    if done.format_version != SCHEMA_VERSION:
        return done, f"it has the format {done.format_version} of an older release, and is left like that"
    try:
        async with Penstock.open(path, perform=False) as penstock, open_gate(penstock, pepper_file=pepper_file) as gate:
            pending = await gate.services.platform.mark(RESTORED_MARK)
    except PenstockError as error:
        return done, str(error)
    return done, None if pending is None else "its audit record cannot be written"

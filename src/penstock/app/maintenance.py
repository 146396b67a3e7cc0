"""Maintenance that needs more than the driver of a database: a restore with its audit record, and who sealed it.

A restored database contains a note that it was restored; the note is written before it replaces the old one. A gate
records the note in the audit log at once, if the secret of the database is available and it has this release's format.
Otherwise the first process that opens the database does.

Above it: the command line. Below it: `drivers`, `gate`.
"""

from __future__ import annotations

from pathlib import Path

from penstock.app.drivers import maintenance_of, storage_of
from penstock.app.gate import open_gate
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.app.server_secret.secret import FINGERPRINT_MARK
from penstock.app.settings.model import Settings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.runtime.ports.maintenance import RestoreResult
from penstock.runtime.ports.platform import RESTORED_MARK
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.resources import read_mark

__all__ = ["restore_on_record", "store_fingerprint"]


async def restore_on_record(
    source: Path, name: str | Path, *, force: bool = False, settings: Settings | None = None
) -> tuple[RestoreResult, str | None]:
    """Restore a backup of a database. Returns the result, and why it is not in the audit log yet, if it is not.

    The settings say where the secret of the database comes from.
    """
    note: JsonObject = {"by": os_user().principal_id, "at": SystemClock().now_ms(), "source": source.name}
    maintenance = maintenance_of(name)
    done = maintenance.restore(source, force=force, note=note)
    if maintenance.plan_migration().steps:
        return done, f"it has the format {done.format_version} of an older release, which this does not change"
    storage = storage_of(settings or Settings(), name)
    try:
        async with Penstock.open(storage=storage, perform=False) as penstock, open_gate(penstock) as gate:
            pending = await read_mark(gate.services.platform, RESTORED_MARK)
    except PenstockError as error:
        return done, str(error)
    return done, None if pending is None else "its audit record cannot be written"


def store_fingerprint(name: str | Path) -> str | None:
    """The fingerprint of the secret that sealed a database; None if nothing in it is sealed."""
    found = maintenance_of(name).mark(FINGERPRINT_MARK)
    return found if isinstance(found, str) else None

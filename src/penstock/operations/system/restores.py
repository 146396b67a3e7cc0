"""The internal call that records the restore of a file in every audit log of the file.

`penstock server restore` leaves a note in the file before it puts the file in place: who, when, from what, and how the
audit logs that were there before ended. The first gate that has the secret of the file turns the note into a record in
every audit log, in one transaction, in the name of that user. Usually that is the gate of the command itself.

Above it: `app.gate`. Below it: the platform port.
"""

from __future__ import annotations

import logging

import msgspec

from penstock.base.errors import Conflict, PenstockError
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.platform import RESTORED_MARK, AuditEntry
from penstock.runtime.tables.audit.records import list_audit_tenants
from penstock.runtime.tables.resources import drop_mark, read_mark

__all__ = ["OPERATIONS", "record_restores"]

_LOGGER = logging.getLogger("penstock")
_RESTORE = "store.restore"


class Restore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who put a file in place, when, and instead of what: each audit log that was there by its last number and hash."""

    by: str
    source: str
    at: int
    replaced: dict[str, tuple[int, str]]
    kept_as: str | None = None


class Restores(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every restore of a file that is not on record yet."""

    restores: list[Restore]


class RestoresRecorded(msgspec.Struct, frozen=True, kw_only=True):
    """How many audit logs record it."""

    trails: int


@operation(_RESTORE, route=None, scopes=("store:restore",), destructive=True, risk="critical")
async def store_restore(context: Context, given: Restores) -> RestoresRecorded:
    """Record in every audit log of a file that the file replaced another one."""
    platform, entry = context.services.platform, context.call.entry
    replaced = (tenant for restore in given.restores for tenant in restore.replaced)
    tenants = dict.fromkeys((DEFAULT_TENANT, *await list_audit_tenants(platform), *replaced))
    if entry is not None:
        entries = [_entry_for(entry, restore, tenant) for tenant in tenants for restore in given.restores]
        context.call.entry, context.call.more = entries[0], tuple(entries[1:])
    if not await drop_mark(platform, RESTORED_MARK, call=context.call):
        raise Conflict("PRECONDITION_FAILED", "another process has put it on record")
    return RestoresRecorded(trails=len(tenants))


def _entry_for(entry: AuditEntry, restore: Restore, tenant: str) -> AuditEntry:
    """Return the entry for the audit log of a tenant: who restored the file, and how the replaced log ended, if any."""
    details: JsonObject = {"restored_at": instant(restore.at)}
    if restore.kept_as is not None:
        details["kept_as"] = restore.kept_as
    if tenant in restore.replaced:
        details["replaced_seq"], details["replaced_hash"] = restore.replaced[tenant]
    return msgspec.structs.replace(
        entry, tenant=tenant, principal=restore.by, subject=restore.source, details={**entry.details, **details}
    )


async def record_restores(gate: Gate) -> None:
    """Record that the file of a gate was restored, if it has such a note and no other process has recorded it."""
    notes = await read_mark(gate.services.platform, RESTORED_MARK)
    if not isinstance(notes, list) or not notes:
        return
    last = notes[-1]
    by = str(last.get("by")) if isinstance(last, dict) else "unknown"
    restorer = Principal(id=by, tenant=DEFAULT_TENANT, kind="local", scopes=frozenset({"store:restore"}), name=by)
    try:
        await internal_call(gate, restorer, _RESTORE, {"restores": notes})
    except Conflict:
        return
    except PenstockError:
        _LOGGER.exception(
            "that this file was restored is not on record yet; the next process that opens it tries again"
        )


OPERATIONS: tuple[Capability, ...] = (store_restore,)

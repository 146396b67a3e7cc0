"""What protects the name of a registered entry: the scopes that it asks for, also after it was deleted.

Workflows keep all of their versions (`starting.protecting_version`). Of an entry that is deleted, only its `governance`
is kept, as a resource of its own, until the name stands for an entry without any that is deleted, too.

Above it: the registries. Below it: the resources of the platform store.
"""

from __future__ import annotations

from penstock.base.errors import Denied
from penstock.base.json import JsonObject, object_or_empty
from penstock.operations.gate.context import Context
from penstock.operations.permissions.starting import first_missing
from penstock.runtime.ports.platform import ResourceRow, body_etag
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.resources import read_resource, write_deletions, write_resources

__all__ = ["kept_protection", "refuse_loosening", "write_protection"]

_GOVERNANCE = "governance"
_DELETED = "deleted_"


async def kept_protection(context: Context, kind: str, name: str) -> JsonObject:
    """Return what is kept of an entry that was deleted: its governance, or nothing."""
    row = await read_resource(context.services.platform, context.tenant, f"{_DELETED}{kind}", name)
    return {} if row is None else row.body


def write_protection(transaction: Transaction, context: Context, deleted: ResourceRow) -> None:
    """Keep what protects an entry that is deleted. If nothing does, forget what protected its name before."""
    declared, kind = deleted.body.get(_GOVERNANCE), f"{_DELETED}{deleted.kind}"
    if not declared:
        write_deletions(transaction, deleted.tenant, kind, [deleted.resource_id])
        return
    body: JsonObject = {_GOVERNANCE: declared}
    now = context.now_ms()
    kept = ResourceRow(
        tenant=deleted.tenant,
        kind=kind,
        resource_id=deleted.resource_id,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
        author=deleted.author,
    )
    write_resources(transaction, [kept])


def refuse_loosening(context: Context, what: str, before: JsonObject, after: JsonObject) -> None:
    """Refuse to leave out a scope that an entry asks for, unless the caller has it; else the caller could use it then.

    `what` is the kind and the name of the entry.
    """
    kept = _scopes_in(after)
    missing = first_missing(context.principal, [scope for scope in _scopes_in(before) if scope not in kept])
    if missing is not None:
        message = f"the {what} needs the scope {missing}; only a key that has it may leave it out"
        hint = "name it under `governance.scopes`, or ask the owner for a key with that scope"
        raise Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})


def _scopes_in(body: JsonObject) -> list[str]:
    scopes = object_or_empty(body.get(_GOVERNANCE)).get("scopes")
    return [str(scope) for scope in scopes] if isinstance(scopes, list) else []

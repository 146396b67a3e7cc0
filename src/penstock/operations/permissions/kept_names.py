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
from penstock.runtime.ports.platform import ANY_ETAG, ResourceRow, body_etag
from penstock.runtime.tables.resources import delete_resource, put_resource, read_resource

__all__ = ["forget_protection", "keep_protection", "kept_protection", "refuse_loosening"]

_GOVERNANCE = "governance"
_DELETED = "deleted_"


async def kept_protection(context: Context, kind: str, name: str) -> JsonObject:
    """Return what is kept of an entry that was deleted: its governance, or nothing."""
    row = await read_resource(context.services.platform, context.tenant, f"{_DELETED}{kind}", name)
    return {} if row is None else row.body


async def keep_protection(context: Context, row: ResourceRow) -> None:
    """Keep what protects an entry, before it is deleted. Most entries have nothing to keep."""
    declared = row.body.get(_GOVERNANCE)
    if not declared:
        return
    body: JsonObject = {_GOVERNANCE: declared}
    now = context.now_ms()
    kept = ResourceRow(
        tenant=row.tenant,
        kind=f"{_DELETED}{row.kind}",
        resource_id=row.resource_id,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
        author=row.author,
    )
    await put_resource(context.services.platform, kept, expected_etag=ANY_ETAG)


async def forget_protection(context: Context, row: ResourceRow) -> None:
    """Forget what protected a name before, once an entry without protection was deleted."""
    if row.body.get(_GOVERNANCE) or not await kept_protection(context, row.kind, row.resource_id):
        return
    kind = f"{_DELETED}{row.kind}"
    await delete_resource(context.services.platform, row.tenant, kind, row.resource_id, expected_etag=ANY_ETAG)


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

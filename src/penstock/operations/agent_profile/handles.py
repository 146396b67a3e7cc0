"""What an app may execute without a person, as grants of the gate; and finding the preflight that an action names.

Above it: `app` gives the grants to the gate, the agent profile on HTTP looks handles up. Below it: `records`, the
resources of the platform store.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.governance.holds import Grant
from penstock.operations.agent_profile.records import WriteGrant, app_of_caller
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import milliseconds
from penstock.operations.gate.context import Context
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.tables.resources import list_resources, read_resource

__all__ = ["HANDLE_OPERATIONS", "app_grants"]

_KIND = "preflight"
Text = Annotated[str, Meta(min_length=1, max_length=300)]


async def app_grants(context: Context) -> tuple[Grant, ...]:
    """Return what the app of the caller may execute without a person."""
    app = await app_of_caller(context.services, context.principal)
    if app is None or app.status != "active":
        return ()
    chosen = app.auto_execute
    writes, high_risk = _grant(context, chosen.writes), _grant(context, chosen.high_risk)
    if high_risk is not None:
        high_risk = msgspec.structs.replace(
            high_risk,
            high_risk=True,
            low_risk=False,
            needs_preflight=chosen.high_risk.require_preflight,
            needs_idempotency_key=chosen.high_risk.require_idempotency,
        )
    return tuple(grant for grant in (writes, high_risk) if grant is not None)


def _grant(context: Context, chosen: WriteGrant) -> Grant | None:
    """Return a grant that is switched on. Without a list of actions it covers the one that is called."""
    until = milliseconds(chosen.expires_at, "expires_at") if chosen.enabled else None
    if until is None:
        return None
    actions = chosen.allowed_actions
    return Grant(capabilities=frozenset({context.capability.name} if actions is None else actions), expires_at=until)


class FindHandle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which preflight: by its handle, or by its hash."""

    operation: Text
    preflight_id: Text | None = None
    digest: Text | None = None


class FoundHandle(msgspec.Struct, frozen=True, kw_only=True):
    """A preflight of the caller; `arguments` is `None` if they hold secrets, which are not stored."""

    preflight_id: str
    arguments: dict[str, Any] | None


@operation(
    "action.handle",
    route=None,
    scopes=("preflight:run",),
    reads=True,
    errors=("PREFLIGHT_NOT_FOUND", "PREFLIGHT_MISMATCH"),
)
async def action_handle(context: Context, given: FindHandle) -> FoundHandle:
    """Find the preflight that an action names."""
    row = await _named(context, given)
    if row.body.get("operation") != given.operation:
        raise Rejected(
            "PREFLIGHT_MISMATCH", "the preflight belongs to another action", "run a preflight for this action"
        )
    arguments = row.body.get("arguments")
    return FoundHandle(preflight_id=row.resource_id, arguments=arguments if isinstance(arguments, dict) else None)


async def _named(context: Context, given: FindHandle) -> ResourceRow:
    platform, tenant = context.services.platform, context.tenant
    if given.preflight_id is not None:
        row = await read_resource(platform, tenant, _KIND, given.preflight_id)
        if row is None or row.body.get("principal") != context.principal.id:
            message = "you have no such preflight: it was used, has expired, or never existed"
            raise Rejected("PREFLIGHT_NOT_FOUND", message, "run a new preflight")
        return row
    cursor = None
    while True:
        page = await list_resources(platform, tenant, _KIND, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
        for row in page.rows:
            if row.body.get("principal") == context.principal.id and row.body.get("digest") == given.digest:
                return row
        cursor = page.next_cursor
        if cursor is None:
            raise Rejected(
                "PREFLIGHT_MISMATCH", "you have no preflight with this hash", "run a preflight for the action"
            )


HANDLE_OPERATIONS: tuple[Capability, ...] = (action_handle,)

"""The internal calls of deliveries: to disable a webhook whose receiver is gone for good, to remove one that is done.

The principal is `system:deliveries`, in the tenant of the webhook.

Above it: `app`. Below it: the platform port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from penstock.base.errors import Conflict
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.platform import ResourceChanged, ResourceRow, body_etag
from penstock.runtime.tables.resources import delete_resource, put_resource, read_resource
from penstock.runtime.webhooks.endpoints import ENDPOINT_KIND, endpoint_of

__all__ = ["OPERATIONS", "disable_through", "remove_through"]

_DISABLE = "webhook.disable"
_REMOVE = "notification.end"


class DisableEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The webhook, with the ETag at the time of the receiver's answer, and the reason."""

    endpoint_id: str
    etag: str
    reason: str


class Disabled(msgspec.Struct, frozen=True, kw_only=True):
    """The webhook that is disabled now."""

    endpoint_id: str


@operation(_DISABLE, route=None, scopes=("webhook:write",), risk="medium", subject="endpoint_id")
async def webhook_disable(context: Context, given: DisableEndpoint) -> Disabled:
    """Disable a webhook whose receiver is gone; refuse if the webhook was changed meanwhile."""
    platform = context.services.platform
    row = await read_resource(platform, context.tenant, ENDPOINT_KIND, given.endpoint_id)
    if row is None or row.etag != given.etag:
        raise Conflict("PRECONDITION_FAILED", f"the webhook {given.endpoint_id} was changed by another call")
    body = replace(endpoint_of(row), enabled=False, disabled_because=given.reason).body()
    by, now = context.principal.id, context.now_ms()
    changed = replace(row, body=body, etag=body_etag(body), updated_at=now, updated_by=by)
    outcome = await put_resource(platform, changed, expected_etag=row.etag, call=context.call)
    if isinstance(outcome, ResourceChanged):
        raise Conflict("PRECONDITION_FAILED", f"the webhook {given.endpoint_id} was changed by another call")
    return Disabled(endpoint_id=given.endpoint_id)


def disable_through(gate: Gate) -> Callable[[ResourceRow, str], Awaitable[None]]:
    """Return the function with which deliveries disable a webhook: a call through the gate."""

    async def disable(row: ResourceRow, reason: str) -> None:
        deliveries = system_principal("deliveries", "webhook:write", tenant=row.tenant)
        try:
            await internal_call(
                gate, deliveries, _DISABLE, {"endpoint_id": row.resource_id, "etag": row.etag, "reason": reason}
            )
        except Conflict:
            return

    return disable


class EndNotification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which, with the ETag that it had when its last news was sent."""

    endpoint_id: str
    etag: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What is gone."""

    endpoint_id: str


@operation(_REMOVE, route=None, scopes=("webhook:delete",), subject="endpoint_id")
async def notification_end(context: Context, given: EndNotification) -> Ended:
    """Remove a receiver of news of a run that has ended, or that its reader may not see any more."""
    await delete_resource(
        context.services.platform,
        context.tenant,
        ENDPOINT_KIND,
        given.endpoint_id,
        expected_etag=given.etag,
        call=context.call,
    )
    return Ended(endpoint_id=given.endpoint_id)


def remove_through(gate: Gate) -> Callable[[ResourceRow], Awaitable[None]]:
    """Return the function with which deliveries remove a notification after its final event."""

    async def remove(row: ResourceRow) -> None:
        deliveries = system_principal("deliveries", "webhook:delete", tenant=row.tenant)
        await internal_call(gate, deliveries, _REMOVE, {"endpoint_id": row.resource_id, "etag": row.etag})

    return remove


OPERATIONS: tuple[Capability, ...] = (webhook_disable, notification_end)

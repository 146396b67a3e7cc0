"""Notifications of one run, in the format of a protocol. They end with the run.

Such a receiver is a webhook of its own kind: stored, sent to, tried again and guarded as all of them are, but told how
the run stands instead of being sent its events. It is deleted after the final event was delivered. What it knows the
sender by (a token, credentials) is sealed with the server's secret and shown to nobody.

Above it: the catalogue, the A2A surface. Below it: the platform's resources, `runtime.webhooks`.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import LimitExceeded, NotFound
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.runs.fields import AnyId
from penstock.operations.runs.handles import changeable_run, find_changeable, visible_run
from penstock.operations.runs.held_calls import seals_of
from penstock.operations.stored_resources import ResourceTable
from penstock.operations.webhooks.addresses import checked_url
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.deliveries import write_deliveries
from penstock.runtime.tables.resources import read_resource, replace_resource
from penstock.runtime.webhooks.endpoints import (
    ENDPOINT_KIND,
    NOTIFICATION_PREFIX,
    Endpoint,
    Notification,
    delivery_id_of,
    endpoint_of,
)
from penstock.runtime.webhooks.events import ENDINGS, EventType, probe_event

__all__ = ["OPERATIONS"]

_EVENTS: tuple[EventType, ...] = ("run.waiting", *ENDINGS)
_NOTIFICATIONS = ResourceTable(kind=ENDPOINT_KIND, noun="notification")
_HEADER = r"^[!-~]([ -~]*[!-~])?$"
_SECRET: dict[str, Any] = {"writeOnly": True}

ExecutionId = Annotated[AnyId, Meta(description="The id of the run.", examples=["order-1042"])]
NotificationId = Annotated[
    str,
    Meta(description="The name of the notification, for this run.", min_length=1, max_length=128, examples=["main"]),
]


class Authentication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent in the header `Authorization`; never shown again."""

    scheme: Annotated[str, Meta(description="Such as Bearer.", pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$")]
    credentials: Annotated[
        str, Meta(description="What follows the scheme.", pattern=_HEADER, max_length=4_000, extra_json_schema=_SECRET)
    ]


class SetNotification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which run, and where and how to notify."""

    execution_id: ExecutionId
    notification_id: NotificationId
    url: Annotated[str, Meta(description="Where to send: an https address.", min_length=9, max_length=2_000)]
    format: Annotated[Literal["a2a/1.0", "a2a/0.3"], Meta(description="The protocol of the events.")] = "a2a/1.0"
    token: Annotated[
        Annotated[str, Meta(pattern=_HEADER, max_length=4_000, extra_json_schema=_SECRET)] | None,
        Meta(description="Sent as `X-A2A-Notification-Token`; never shown again."),
    ] = None
    authentication: Authentication | None = None


class OneNotification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which one, of which run."""

    execution_id: ExecutionId
    notification_id: NotificationId


class ListNotifications(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which run."""

    execution_id: ExecutionId


class NotificationView(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, without the credentials that identify the sender. `endpoint_id` is its id as a webhook."""

    execution_id: str
    notification_id: str
    endpoint_id: str
    url: str
    format: str
    enabled: bool
    created_at: str | None
    updated_by: str | None


class NotificationPage(msgspec.Struct, frozen=True, kw_only=True):
    """All of a run; there are only a few."""

    items: list[NotificationView]


def _prefix(run_id: str) -> str:
    return f"{NOTIFICATION_PREFIX}{_short(run_id, 24)}_"


def _endpoint_id(run_id: str, notification_id: str) -> str:
    return _prefix(run_id) + _short(notification_id, 24)


def _short(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _view(row: ResourceRow, told: Notification) -> NotificationView:
    endpoint = endpoint_of(row)
    return NotificationView(
        execution_id=id_for_callers(row.tenant, told.run_id),
        notification_id=told.notification_id,
        endpoint_id=row.resource_id,
        url=endpoint.url,
        format=told.format,
        enabled=endpoint.enabled,
        created_at=instant(row.created_at),
        updated_by=row.updated_by,
    )


async def _found(context: Context, given: OneNotification, run: RunRow) -> tuple[ResourceRow, Notification]:
    endpoint_id = _endpoint_id(run.run_id, given.notification_id)
    row = await read_resource(context.services.platform, context.tenant, ENDPOINT_KIND, endpoint_id)
    told = None if row is None else endpoint_of(row).notification
    if row is None or told is None:
        message = f"run {given.execution_id[:200]} has no notification {given.notification_id}"
        raise NotFound("NOTIFICATION_NOT_FOUND", message, "list them with notification.list")
    return row, told


async def _find_deletable(context: Context, given: OneNotification) -> ResourceRow:
    """Find the receiver that the input of a call names, for an end of it."""
    row, _ = await _found(context, given, await changeable_run(context, given.execution_id))
    return row


async def _refuse_more(context: Context, run_id: str) -> None:
    for prefix, most in (
        (_prefix(run_id), limits.NOTIFICATIONS_PER_RUN_MAX),
        (NOTIFICATION_PREFIX, limits.NOTIFICATIONS_PER_TENANT_MAX),
    ):
        page = await _NOTIFICATIONS.page(context, limit=most, cursor=None, prefix=prefix)
        if len(page.rows) >= most:
            message = f"there are {most} notifications{' of this run' if prefix != NOTIFICATION_PREFIX else ''} already"
            raise LimitExceeded("NOTIFICATIONS_LIMITED", message, "delete one that you do not need")


async def _notification(context: Context, given: SetNotification, run: RunRow) -> Notification:
    headers: JsonObject = {}
    if given.token is not None:
        headers["x-a2a-notification-token"] = given.token
    if given.authentication is not None:
        headers["authorization"] = f"{given.authentication.scheme} {given.authentication.credentials}"
    sealed = await seals_of(context.services).seal(context.tenant, headers) if headers else None
    return Notification(run_id=run.run_id, notification_id=given.notification_id, format=given.format, sealed=sealed)


@operation(
    "notification.set",
    route=Route(method="PUT", path="/executions/{execution_id}/notifications/{notification_id}"),
    scopes=("webhook:write",),
    idempotent=True,
    open_world=True,
    risk="medium",
    subject="execution_id",
    find=find_changeable,
    errors=("EXECUTION_NOT_FOUND", "DRAFT_NOT_YOURS", "WEBHOOK_URL_INVALID", "NOTIFICATIONS_LIMITED"),
    examples=(
        Example(
            arguments={"execution_id": "order-1042", "notification_id": "main", "url": "https://example.com/news"},
        ),
    ),
)
async def notification_set(context: Context, given: SetNotification) -> Reply[NotificationView]:
    """Notify an address about one run.

    The receiver gets the present status, every question and the end of the run, at least once each. Then the
    notification is deleted. It gets what you may see of the run, for as long as your key is valid.
    """
    now = context.now_ms()  # before the execution is looked at: what happens from now on is an event
    run = await changeable_run(context, given.execution_id)
    url = checked_url(given.url, allow_private=context.services.webhooks.allow_private_addresses)
    endpoint_id = _endpoint_id(run.run_id, given.notification_id)
    platform = context.services.platform
    was = await read_resource(platform, context.tenant, ENDPOINT_KIND, endpoint_id)
    if was is None:
        await _refuse_more(context, run.run_id)
    told = await _notification(context, given, run)
    endpoint = Endpoint(
        url=url,
        events=_EVENTS,
        notification=told,
        maker={"principal": context.principal.id, **context.initiator.to_json()},
    )
    row = replace(_NOTIFICATIONS.row(context, endpoint_id, endpoint.body(), was=was), created_at=now)
    reply = Reply(value=_view(row, told))
    context.call.about(given.execution_id, notification=given.notification_id)
    first = _first(context, row, run, now)

    def change(transaction: Transaction) -> None:
        write_deliveries(transaction, [first])
        replace_resource(transaction, row)

    await platform.write(change, call=idempotency.answered(context, reply))
    context.services.nudge_deliveries()
    return reply


def _first(context: Context, row: ResourceRow, run: RunRow, now: int) -> DeliveryRow:
    """Return the initial status delivery. Its body is rendered when it is sent."""
    delivery_id = delivery_id_of(f"{row.resource_id}/{row.etag}", run.run_id, run.seq)
    services = context.services
    source = services.webhooks.address(services.base_path)
    return DeliveryRow(
        delivery_id=delivery_id,
        tenant=row.tenant,
        endpoint_id=row.resource_id,
        run_id=run.run_id,
        event=probe_event(row.tenant, row.resource_id, delivery_id, source=source, at=now),
        created_at=now,
        updated_at=now,
    )


@operation(
    "notification.get",
    route=Route(method="GET", path="/executions/{execution_id}/notifications/{notification_id}"),
    scopes=("webhook:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND", "NOTIFICATION_NOT_FOUND"),
)
async def notification_get(context: Context, given: OneNotification) -> NotificationView:
    """Get a notification of a run.

    Returns the address and the protocol; never the token. delivery.list shows what was sent, by its `endpoint_id`.
    """
    return _view(*await _found(context, given, await visible_run(context, given.execution_id)))


@operation(
    "notification.list",
    route=Route(method="GET", path="/executions/{execution_id}/notifications"),
    scopes=("webhook:read",),
    reads=True,
    subject="execution_id",
    errors=("EXECUTION_NOT_FOUND",),
)
async def notification_list(context: Context, given: ListNotifications) -> NotificationPage:
    """List the notifications of a run.

    A notification is deleted after its final event was delivered, and is then no longer listed.
    """
    run = await visible_run(context, given.execution_id)
    page = await _NOTIFICATIONS.page(
        context, limit=limits.NOTIFICATIONS_PER_RUN_MAX, cursor=None, prefix=_prefix(run.run_id)
    )
    told = [(row, endpoint_of(row).notification) for row in page.rows]
    return NotificationPage(items=[_view(row, notification) for row, notification in told if notification is not None])


@operation(
    "notification.delete",
    route=Route(method="DELETE", path="/executions/{execution_id}/notifications/{notification_id}"),
    scopes=("webhook:delete",),
    destructive=True,
    subject="execution_id",
    find=_find_deletable,
    errors=("EXECUTION_NOT_FOUND", "DRAFT_NOT_YOURS", "NOTIFICATION_NOT_FOUND"),
)
async def notification_delete(context: Context, given: OneNotification) -> Deleted:
    """Delete a notification of a run.

    Nothing more is sent, not even what waits to be sent again.
    """
    row = await _find_deletable(context, given)
    context.call.about(given.execution_id, notification=given.notification_id)
    return await _NOTIFICATIONS.delete(context, row.resource_id, None, told=given.notification_id)


OPERATIONS: tuple[Capability, ...] = (notification_set, notification_get, notification_list, notification_delete)

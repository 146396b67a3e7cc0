"""Operations on outgoing webhooks: which events of runs go where, and the outcome of each delivery.

The secret of an endpoint is derived from the server's own secret, the endpoint's id and a version. It is shown once and
never stored. The address is checked here as far as its text shows where it leads, and again whenever an event is sent,
with what its name resolves to.

Above it: the catalogue. Below it: the platform's resources and queue, `runtime.webhooks.endpoints`. Sending is in
`runtime.webhooks.dispatcher`; received webhooks are in `triggers`.
"""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Conflict, LimitExceeded, NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.durations import parse_native_duration_ms
from penstock.governance.authorship import weaker_author
from penstock.governance.webhook_signatures import endpoint_secret, secret_text
from penstock.operations.catalogue.capability import Capability, Example, Reply, Revealed, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.authorship import author_of
from penstock.operations.runs.proposals import proposals_of
from penstock.operations.stored_resources import ResourceTable, expected_etag
from penstock.operations.webhooks.addresses import checked_url
from penstock.operations.webhooks.views import (
    CreateEndpoint,
    DeleteEndpoint,
    DeliveryPageView,
    DeliveryView,
    EndpointBody,
    EndpointPage,
    EndpointView,
    ListDeliveries,
    ListEndpoints,
    NewEndpoint,
    OneDelivery,
    OneEndpoint,
    RotateSecret,
    UpdateEndpoint,
    delivery_view,
    endpoint_view,
)
from penstock.runtime.ports.platform import ANY_ETAG, DeliveryRow, ResourceRow
from penstock.runtime.tables.deliveries import add_deliveries, list_deliveries, read_delivery, save_delivery
from penstock.runtime.tables.resources import read_resource
from penstock.runtime.webhooks.endpoints import ENDPOINT_KIND, ENDPOINT_PREFIX, Endpoint, endpoint_of
from penstock.runtime.webhooks.events import probe_event

__all__ = ["OPERATIONS"]

_EXAMPLE_ID = "wh_01ka4t8r9b6s3vq2xhj7m5n0pe"


_ENDPOINTS = ResourceTable(
    kind=ENDPOINT_KIND, noun="webhook", delete_hint="read it again, and apply the change to that version"
)


def _row(context: Context, endpoint_id: str, endpoint: Endpoint, was: ResourceRow | None = None) -> ResourceRow:
    return _ENDPOINTS.row(context, endpoint_id, endpoint.body(), was=was)


def _endpoint(context: Context, given: EndpointBody) -> Endpoint:
    return Endpoint(
        url=checked_url(given.url, allow_private=context.services.webhooks.allow_private_addresses),
        events=tuple(dict.fromkeys(given.events)),
        workflows=tuple(dict.fromkeys(given.workflows)),
        enabled=given.enabled,
        description=given.description,
        include_output=given.include_output,
        maker={"principal": context.principal.id, **context.initiator.to_json()},
    )


def _with_secret(context: Context, row: ResourceRow, version: int) -> Reply[NewEndpoint]:
    """Return the reply with the secret. Only what the secret is derived from is stored for a repeated call."""
    secret = secret_text(endpoint_secret(context.services.pepper, row.tenant, row.resource_id, version))
    view = endpoint_view(context.services, row)
    return Reply(
        value=NewEndpoint(secret=secret, webhook=view),
        kept={"derived_from": [row.tenant, row.resource_id, version], "webhook": to_builtins(view)},
        etag=row.etag,
        location=f"/webhooks/{row.resource_id}",
    )


def _repeat(services: Services, kept: JsonObject) -> JsonValue:
    """Rebuild the answer with the secret."""
    match kept.get("derived_from"):
        case [str(tenant), str(endpoint_id), int(version)]:
            secret = secret_text(endpoint_secret(services.pepper, tenant, endpoint_id, version))
            return {"secret": secret, "webhook": kept["webhook"]}
        case _:
            return kept  # from an older release, which stored the answer without the secret


def _new_id(context: Context, prefix: str) -> str:
    """Return a new id; with an idempotency key, the same one for a call that is repeated after a crash."""
    request = replace(context.request, operation=context.capability.name)
    derived = idempotency.derived_id(context.principal, request)
    return prefix + (derived or context.services.new_id().removeprefix("r_").lower())


async def _store(context: Context, row: ResourceRow, expected: str | None, reply: Reply[Any]) -> None:
    """Store an endpoint with the answer of the call, and wake the deliveries."""
    await _ENDPOINTS.store(context, row, expected, reply)
    context.services.nudge_deliveries()


def _sends_outputs(arguments: JsonObject) -> Revealed:
    """Whether a webhook gets outputs of runs: callers who must not see them must not have them sent."""
    return "runs" if arguments.get("include_output") else None


@operation(
    "webhook.create",
    route=Route(method="POST", path="/webhooks", status=201),
    scopes=("webhook:write",),
    open_world=True,
    risk="high",
    stores="webhook",
    errors=("WEBHOOK_URL_INVALID", "WEBHOOKS_LIMITED", "FIELDS_HIDDEN"),
    repeat=_repeat,
    examples=(
        Example(
            arguments={"url": "https://example.com/events", "events": ["run.completed", "run.failed"]},
        ),
    ),
    reveals=_sends_outputs,
)
async def webhook_create(context: Context, given: CreateEndpoint) -> Reply[NewEndpoint]:
    """Send events to an address.

    From now on, events of runs go there as signed CloudEvents, at least once each. The answer contains the secret that
    signs them, which is shown only once. Try it with webhook.test.
    """
    endpoint = _endpoint(context, given)
    services = context.services
    endpoint_id = _new_id(context, ENDPOINT_PREFIX)
    known = await read_resource(services.platform, context.tenant, ENDPOINT_KIND, endpoint_id)
    if known is None:
        page = await _ENDPOINTS.page(
            context, limit=limits.ENDPOINTS_PER_TENANT_MAX, cursor=None, prefix=ENDPOINT_PREFIX
        )
        if len(page.rows) >= limits.ENDPOINTS_PER_TENANT_MAX:
            message = f"the tenant already has {limits.ENDPOINTS_PER_TENANT_MAX} webhooks"
            raise LimitExceeded("WEBHOOKS_LIMITED", message, "delete one that you do not need")
        known = _row(context, endpoint_id, endpoint)
        context.call.about(endpoint_id)
        await _store(context, known, None, _with_secret(context, known, endpoint.secret_version))
    return _with_secret(context, known, endpoint_of(known).secret_version)


@operation(
    "webhook.get",
    route=Route(method="GET", path="/webhooks/{endpoint_id}", etag=True),
    scopes=("webhook:read",),
    reads=True,
    subject="endpoint_id",
    errors=("WEBHOOK_NOT_FOUND",),
    examples=(Example(arguments={"endpoint_id": _EXAMPLE_ID}),),
)
async def webhook_get(context: Context, given: OneEndpoint) -> Reply[EndpointView]:
    """Get a webhook.

    Returns the address and the types of events; never the secret.
    """
    row = await _ENDPOINTS.find(context, given.endpoint_id)
    return Reply(value=endpoint_view(context.services, row), etag=row.etag)


@operation(
    "webhook.list",
    route=Route(method="GET", path="/webhooks", query=("limit", "cursor")),
    scopes=("webhook:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
)
async def webhook_list(context: Context, given: ListEndpoints) -> EndpointPage:
    """List webhooks.

    Returns the addresses that events are sent to. trigger.list has the addresses that start workflows.
    """
    page = await _ENDPOINTS.page(context, limit=given.limit, cursor=given.cursor)
    return EndpointPage(
        items=[endpoint_view(context.services, row) for row in page.rows],
        next_cursor=page.next_cursor,
        proposals=await proposals_of(context, "webhook", cursor=given.cursor),
    )


@operation(
    "webhook.update",
    route=Route(method="PUT", path="/webhooks/{endpoint_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("webhook:write",),
    idempotent=True,
    open_world=True,
    risk="high",
    stores="webhook",
    subject="endpoint_id",
    find=_ENDPOINTS.finder("endpoint_id"),
    errors=(
        "WEBHOOK_NOT_FOUND",
        "WEBHOOK_URL_INVALID",
        "WEBHOOK_OF_EXECUTION",
        "PRECONDITION_FAILED",
        "FIELDS_HIDDEN",
    ),
    examples=(
        Example(arguments={"endpoint_id": "wh_01", "url": "https://example.com/events", "events": ["run.failed"]}),
    ),
    reveals="runs",
)
async def webhook_update(context: Context, given: UpdateEndpoint) -> Reply[EndpointView]:
    """Change a webhook.

    Replaces the address and the filters; the secret stays. A webhook that you enable again gets the events from then
    on; send the ones that were given up with delivery.retry.
    """
    endpoint, expected = _endpoint(context, given), expected_etag(given.if_match)
    while True:
        was = await _ENDPOINTS.find(context, given.endpoint_id)
        known = endpoint_of(was)
        if known.notification is not None:
            message = f"{given.endpoint_id} belongs to one run, and only the caller who set it may change it"
            raise Conflict("WEBHOOK_OF_EXECUTION", message, "delete it, or set it again with notification.set")
        changed = replace(
            endpoint,
            secret_version=known.secret_version,
            previous_until=known.previous_until,
            disabled_because=None if given.enabled else known.disabled_because,
        )
        row = _row(context, given.endpoint_id, changed, was)
        reply = Reply(value=endpoint_view(context.services, row), etag=row.etag)
        try:
            # Members that stay are those just read: storing them must not bring back a secret that was rotated
            # meanwhile.
            await _store(context, row, was.etag if expected == ANY_ETAG else expected, reply)
        except Conflict as error:
            if expected == ANY_ETAG and error.code == "PRECONDITION_FAILED":
                continue
            raise
        return reply


@operation(
    "webhook.delete",
    route=Route(method="DELETE", path="/webhooks/{endpoint_id}", headers={"If-Match": "if_match"}),
    scopes=("webhook:delete",),
    destructive=True,
    risk="medium",
    subject="endpoint_id",
    find=_ENDPOINTS.finder("endpoint_id"),
    errors=("WEBHOOK_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def webhook_delete(context: Context, given: DeleteEndpoint) -> Deleted:
    """Delete a webhook.

    Nothing more is sent there, not even what waits to be sent again.
    """
    return await _ENDPOINTS.delete(context, given.endpoint_id, given.if_match)


@operation(
    "webhook.rotate",
    route=Route(method="POST", path="/webhooks/{endpoint_id}/rotate", status=201),
    scopes=("webhook:write",),
    risk="high",
    stores="webhook",
    subject="endpoint_id",
    find=_ENDPOINTS.finder("endpoint_id"),
    errors=("WEBHOOK_NOT_FOUND", "DURATION_INVALID", "PRECONDITION_FAILED"),
    repeat=_repeat,
)
async def webhook_rotate(context: Context, given: RotateSecret) -> Reply[NewEndpoint]:
    """Replace the secret of a webhook.

    The answer contains the new secret, which is shown only once. For the time of `overlap`, events are signed with
    both.
    """
    overlap_ms = parse_native_duration_ms(given.overlap)
    if overlap_ms is None or overlap_ms > limits.ENDPOINT_SECRET_OVERLAP_MS_MAX:
        message = f"overlap: {given.overlap!r} is not a duration of at most 7 days"
        raise Rejected("DURATION_INVALID", message, "write it like 1h, 24h or 7d")
    was = await _ENDPOINTS.find(context, given.endpoint_id)
    known = endpoint_of(was)
    endpoint = replace(
        known,
        secret_version=known.secret_version + 1,
        previous_until=context.now_ms() + overlap_ms if overlap_ms else None,
    )
    # Only the secret is another one: whoever chose the address answers for it.
    row = replace(_row(context, given.endpoint_id, endpoint, was), author=weaker_author(was.author, author_of(context)))
    reply = _with_secret(context, row, endpoint.secret_version)
    await _store(context, row, was.etag, reply)
    return reply


@operation(
    "webhook.test",
    route=Route(method="POST", path="/webhooks/{endpoint_id}/test", status=202),
    scopes=("webhook:write",),
    open_world=True,
    subject="endpoint_id",
    find=_ENDPOINTS.finder("endpoint_id"),
    errors=("WEBHOOK_NOT_FOUND", "WEBHOOK_DISABLED"),
    examples=(Example(arguments={"endpoint_id": _EXAMPLE_ID}),),
)
async def webhook_test(context: Context, given: OneEndpoint) -> DeliveryView:
    """Send a test event to a webhook.

    Queues an event of type penstock.webhook.test; see its delivery with delivery.get.
    """
    row = await _ENDPOINTS.find(context, given.endpoint_id)
    _refuse_disabled(row)
    services, now = context.services, context.now_ms()
    delivery_id = _new_id(context, "dlv_")
    source = services.webhooks.address(services.base_path)
    delivery = DeliveryRow(
        delivery_id=delivery_id,
        tenant=context.tenant,
        endpoint_id=row.resource_id,
        run_id="",
        event=probe_event(context.tenant, row.resource_id, delivery_id, source=source, at=now),
        created_at=now,
        updated_at=now,
    )
    view = delivery_view(delivery)
    await add_deliveries(services.platform, [delivery], call=idempotency.answered(context, Reply(value=view)))
    services.nudge_deliveries()
    return view


def _refuse_disabled(row: ResourceRow) -> None:
    endpoint = endpoint_of(row)
    if not endpoint.enabled:
        message = f"the webhook {row.resource_id} is disabled"
        why = f": {endpoint.disabled_because}" if endpoint.disabled_because else ""
        raise Conflict("WEBHOOK_DISABLED", message + why, "enable it with webhook.update first")


@operation(
    "delivery.list",
    route=Route(method="GET", path="/webhooks/{endpoint_id}/deliveries", query=("state", "limit", "cursor")),
    scopes=("webhook:read",),
    reads=True,
    subject="endpoint_id",
    errors=("WEBHOOK_NOT_FOUND", "INVALID_LIST_CURSOR", "FIELDS_HIDDEN"),
    examples=(Example(arguments={"endpoint_id": _EXAMPLE_ID, "state": "dead"}),),
    reveals="runs",
)
async def delivery_list(context: Context, given: ListDeliveries) -> DeliveryPageView:
    """List the deliveries of a webhook.

    Returns the events that were queued for it, newest first: delivered, on their way, or given up (`dead`) after the
    last attempt. Send one again with delivery.retry.
    """
    await _ENDPOINTS.find(context, given.endpoint_id)
    page = await list_deliveries(
        context.services.platform,
        context.tenant,
        endpoint_id=given.endpoint_id,
        state=given.state,
        limit=given.limit,
        cursor=given.cursor,
    )
    return DeliveryPageView(items=[delivery_view(row) for row in page.rows], next_cursor=page.next_cursor)


async def _found_delivery(context: Context, delivery_id: str) -> DeliveryRow:
    row = await read_delivery(context.services.platform, context.tenant, delivery_id)
    if row is None:
        message = f"there is no delivery {delivery_id}"
        raise NotFound(
            "DELIVERY_NOT_FOUND",
            message,
            "list the deliveries with delivery.list; finished ones are removed after a while",
        )
    return row


async def _find_delivery(context: Context, given: OneDelivery) -> ResourceRow:
    """Find the webhook of the delivery that the input of a call names."""
    return await _ENDPOINTS.find(context, (await _found_delivery(context, given.delivery_id)).endpoint_id)


@operation(
    "delivery.get",
    route=Route(method="GET", path="/deliveries/{delivery_id}"),
    scopes=("webhook:read",),
    reads=True,
    subject="delivery_id",
    errors=("DELIVERY_NOT_FOUND", "FIELDS_HIDDEN"),
    reveals="runs",
)
async def delivery_get(context: Context, given: OneDelivery) -> DeliveryView:
    """Get a delivery.

    Returns the event as it is sent, how often it was tried, and the last answer of the receiver.
    """
    return delivery_view(await _found_delivery(context, given.delivery_id))


@operation(
    "delivery.retry",
    route=Route(method="POST", path="/deliveries/{delivery_id}/retry", status=202),
    scopes=("webhook:write",),
    open_world=True,
    idempotent=True,
    subject="delivery_id",
    find=_find_delivery,
    errors=("DELIVERY_NOT_FOUND", "WEBHOOK_NOT_FOUND", "WEBHOOK_DISABLED", "FIELDS_HIDDEN"),
    reveals="runs",
)
async def delivery_retry(context: Context, given: OneDelivery) -> DeliveryView:
    """Send an event again.

    Sends it at once, with the same id and a full set of attempts. This works for events that were delivered or given
    up, too.
    """
    row = await _found_delivery(context, given.delivery_id)
    _refuse_disabled(await _ENDPOINTS.find(context, row.endpoint_id))
    now = context.now_ms()
    again = replace(row, state="pending", attempts=0, next_at=now, updated_at=now)
    view = delivery_view(again)
    await save_delivery(context.services.platform, again, call=idempotency.answered(context, Reply(value=view)))
    context.services.nudge_deliveries()
    return view


OPERATIONS: tuple[Capability, ...] = (
    webhook_create,
    webhook_get,
    webhook_list,
    webhook_update,
    webhook_delete,
    webhook_rotate,
    webhook_test,
    delivery_list,
    delivery_get,
    delivery_retry,
)

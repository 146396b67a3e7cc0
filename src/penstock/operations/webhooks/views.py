"""The inputs and views of the operations on sent webhooks.

Above it: `endpoints`. Below it: nothing but data and the stored rows they are made from.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.ids import id_for_callers
from penstock.operations.catalogue.fields import Cursor, IfMatch, Limit, WorkflowId, instant
from penstock.operations.gate.context import Services
from penstock.operations.runs.proposals import AuthorView, ProposalView, author_view
from penstock.runtime.ports.platform import DeliveryRow, ResourceRow
from penstock.runtime.webhooks.endpoints import endpoint_of
from penstock.runtime.webhooks.events import ENDINGS, EVENT_TYPES, EventType

__all__ = [
    "ENDINGS",
    "EVENT_TYPES",
    "CreateEndpoint",
    "DeleteEndpoint",
    "DeliveryPageView",
    "DeliveryView",
    "EndpointBody",
    "EndpointPage",
    "EndpointView",
    "ListDeliveries",
    "ListEndpoints",
    "NewEndpoint",
    "OneDelivery",
    "OneEndpoint",
    "RotateSecret",
    "UpdateEndpoint",
    "delivery_view",
    "endpoint_view",
]

EndpointId = Annotated[
    str,
    Meta(
        description="The id of the webhook.",
        min_length=1,
        max_length=64,
        examples=["wh_01ka4t8r9b6s3vq2xhj7m5n0pe"],
    ),
]
DeliveryId = Annotated[
    str,
    Meta(
        description="The id of the delivery; receivers see it as `webhook-id`.",
        min_length=1,
        max_length=64,
        examples=["dlv_3b1f0c9ad2e84c55"],
    ),
]
DeliveryState = Literal["pending", "delivered", "dead"]


class EndpointBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where events go, and which."""

    url: Annotated[str, Meta(description="Where to send events: an https address.", min_length=9, max_length=2_000)]
    events: Annotated[
        list[EventType],
        Meta(description="Which events; the endings of runs without.", min_length=1, max_length=len(EVENT_TYPES)),
    ] = msgspec.field(default_factory=lambda: list(ENDINGS))
    workflows: Annotated[
        list[WorkflowId], Meta(description="Only events of these workflows; of all without.", max_length=100)
    ] = msgspec.field(default_factory=list)
    enabled: Annotated[bool, Meta(description="Whether events are sent.")] = True
    include_output: Annotated[bool, Meta(description="Whether `run.completed` carries the output of the run.")] = False
    description: Annotated[Annotated[str, Meta(max_length=500)] | None, Meta(description="For people.")] = None


class CreateEndpoint(EndpointBody, frozen=True, kw_only=True):
    """Where events go, and which."""


class UpdateEndpoint(EndpointBody, frozen=True, kw_only=True):
    """Which webhook, and what it is now."""

    endpoint_id: EndpointId
    if_match: IfMatch = None


class OneEndpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which webhook."""

    endpoint_id: EndpointId


class DeleteEndpoint(OneEndpoint, frozen=True, kw_only=True):
    """Which webhook, and perhaps which version of it."""

    if_match: IfMatch = None


class RotateSecret(OneEndpoint, frozen=True, kw_only=True):
    """Which webhook, and how long the old secret is used beside the new one."""

    overlap: Annotated[
        str, Meta(description="How long events are signed with the old secret too.", max_length=20, examples=["24h"])
    ] = "24h"


class ListEndpoints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class ListDeliveries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which webhook, and which of its deliveries."""

    endpoint_id: EndpointId
    state: Annotated[DeliveryState | None, Meta(description="Only those in this state.")] = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class OneDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which delivery."""

    delivery_id: DeliveryId


class EndpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook without its secret. `old_secret_until` says how long events are signed with the secret before, too."""

    id: str
    url: str
    events: list[str]
    workflows: list[str]
    enabled: bool
    disabled_because: str | None
    include_output: bool
    description: str | None
    secret_version: int
    old_secret_until: str | None
    etag: str
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None
    """Who wrote it, and whether anything is sent."""
    execution_id: str | None = None
    """The run that it is about, if it is about one only."""


class NewEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with a new secret: the only time that `secret` is shown."""

    secret: str
    webhook: EndpointView


class EndpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of webhooks."""

    items: list[EndpointView]
    next_cursor: str | None
    proposals: list[ProposalView] = []
    """Held calls that would store one; on the first page."""


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to a webhook, and how that went."""

    id: str
    endpoint_id: str
    execution_id: str | None
    event_type: str
    state: DeliveryState
    attempts: int
    next_attempt_at: str | None
    last_status: int | None
    last_error: str | None
    created_at: str | None
    updated_at: str | None
    event: dict[str, Any]


class DeliveryPageView(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries, the newest first."""

    items: list[DeliveryView]
    next_cursor: str | None


def endpoint_view(services: Services, row: ResourceRow) -> EndpointView:
    """Return a webhook as callers see it."""
    endpoint = endpoint_of(row)
    told = endpoint.notification
    return EndpointView(
        id=row.resource_id,
        url=endpoint.url,
        events=list(endpoint.events),
        workflows=list(endpoint.workflows),
        enabled=endpoint.enabled,
        disabled_because=endpoint.disabled_because,
        include_output=endpoint.include_output,
        description=endpoint.description,
        secret_version=endpoint.secret_version,
        old_secret_until=instant(endpoint.previous_until),
        etag=row.etag,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        updated_by=row.updated_by,
        author=author_view(services, row.author),
        execution_id=None if told is None else id_for_callers(row.tenant, told.run_id),
    )


def delivery_view(row: DeliveryRow) -> DeliveryView:
    """Return a delivery as callers see it."""
    event_type = row.event.get("type")
    return DeliveryView(
        id=row.delivery_id,
        endpoint_id=row.endpoint_id,
        execution_id=id_for_callers(row.tenant, row.run_id) if row.run_id else None,
        event_type=event_type if isinstance(event_type, str) else "",
        state=row.state,
        attempts=row.attempts,
        next_attempt_at=instant(row.next_at) if row.state == "pending" else None,
        last_status=row.last_status,
        last_error=row.last_error,
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        event=row.event,
    )

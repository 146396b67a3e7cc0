"""Endpoints: which events go where, as stored in the platform's resources.

Above it: `operations.webhooks.endpoints`, `feed`, `dispatcher`. Below it: the platform port's rows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.governance.authorship import AuthorshipRules, is_proposed, proposed_message
from penstock.governance.webhook_signatures import endpoint_secret
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.stored_bodies import decode_body
from penstock.runtime.webhooks.events import ENDINGS, EventType

__all__ = [
    "ENDPOINT_KIND",
    "ENDPOINT_PREFIX",
    "NOTIFICATION_PREFIX",
    "Endpoint",
    "Notification",
    "delivery_id_of",
    "endpoint_of",
    "signing_secrets",
    "why_not_sent",
]

ENDPOINT_KIND = "webhook"
# The prefixes of ids: of endpoints that a tenant made for its events, and of subscriptions to one run.
ENDPOINT_PREFIX = "wh_"
NOTIFICATION_PREFIX = "push_"


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription of an endpoint to the status of one run, instead of events of many."""

    run_id: str
    notification_id: str
    """The name that its creator gave it."""
    format: str
    """The format of its messages: the name of a protocol and its version."""
    sealed: str | None = None
    """What the receiver knows the sender by, as only this server can read it."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where events go. Empty `workflows` means all workflows.

    Until `previous_until`, events are also signed with the previous secret.
    """

    url: str
    events: tuple[EventType, ...] = ENDINGS
    workflows: tuple[str, ...] = ()
    enabled: bool = True
    description: str | None = None
    include_output: bool = False
    secret_version: int = 1
    previous_until: int | None = None
    disabled_because: str | None = None
    maker: dict[str, Any] | None = None
    """Who decided what is sent: the principal by id, and what its first record would say of it. None in older rows."""
    notification: Notification | None = None
    """For an endpoint that subscribes to one run only."""

    def wants(self, event_type: str, workflow_name: str, run_id: str) -> bool:
        """True if an event goes to this endpoint."""
        return event_type in self.events and self.wants_run(workflow_name, run_id)

    def wants_run(self, workflow_name: str, run_id: str) -> bool:
        """True if events of a run go to this endpoint at all."""
        if self.notification is not None and self.notification.run_id != run_id:
            return False
        return self.enabled and (not self.workflows or workflow_name in self.workflows)

    def body(self) -> JsonObject:
        """The endpoint as it is stored."""
        kept: JsonObject = msgspec.json.decode(encode_bytes(self))
        return kept


def endpoint_of(row: ResourceRow) -> Endpoint:
    """An endpoint from its row."""
    return decode_body(row, Endpoint)


def why_not_sent(row: ResourceRow, rules: AuthorshipRules) -> str | None:
    """Why nothing is sent to an endpoint: it is disabled, or only proposed; None if events are sent.

    A subscription to one run sends nothing that its creator may not read, so it needs no acceptance.
    """
    endpoint = endpoint_of(row)
    if not endpoint.enabled:
        return "the endpoint is disabled"
    if endpoint.notification is None and is_proposed(row.author, rules):
        return proposed_message(f"webhook {row.resource_id}", row.author)
    return None


def signing_secrets(pepper: bytes, row: ResourceRow, endpoint: Endpoint, *, now: int) -> tuple[bytes, ...]:
    """The secrets that sign events for an endpoint now."""
    versions = [endpoint.secret_version]
    if endpoint.previous_until is not None and now < endpoint.previous_until:
        versions.append(endpoint.secret_version - 1)
    return tuple(endpoint_secret(pepper, row.tenant, row.resource_id, version) for version in versions)


def delivery_id_of(endpoint_id: str, run_id: str, seq: int) -> str:
    """The id of the delivery of an event to an endpoint. It is the same for every process and every attempt."""
    named = "\0".join((endpoint_id, run_id, str(seq)))
    return f"dlv_{hashlib.sha256(named.encode()).hexdigest()[:32]}"

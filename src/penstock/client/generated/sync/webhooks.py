"""Operations on webhook, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.client.caller import Caller
from penstock.client.generated.views.delivery import DeliveryView
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.webhook import EndpointPage, EndpointView, NewEndpoint

__all__ = ["Webhooks"]


class Webhooks:
    """Operations on webhook."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
        self,
        *,
        url: str,
        events: str | Sequence[str] | None = None,
        workflows: str | Sequence[str] | None = None,
        enabled: bool | None = None,
        include_output: bool | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> NewEndpoint:
        """Send events to an address.

        From now on, events of runs go there as signed CloudEvents, at least once each. The answer contains the
        secret that signs them, which is shown only once. Try it with webhook.test.
        """
        return self._caller.invoke(
            "webhook.create",
            {
                "url": url,
                "events": events,
                "workflows": workflows,
                "enabled": enabled,
                "include_output": include_output,
                "description": description,
            },
            NewEndpoint,
            idempotency_key=idempotency_key,
        )

    def get(self, endpoint_id: str) -> EndpointView:
        """Get a webhook.

        Returns the address and the types of events; never the secret.
        """
        return self._caller.invoke("webhook.get", {"endpoint_id": endpoint_id}, EndpointView)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> EndpointPage:
        """List webhooks.

        Returns the addresses that events are sent to. trigger.list has the addresses that start workflows.
        """
        return self._caller.invoke("webhook.list", {"limit": limit, "cursor": cursor}, EndpointPage)

    def list_all(self, *, limit: int | None = None) -> Iterator[EndpointView]:
        """List webhooks: all of them; `limit` is the size of a page."""
        for page in self._caller.pages("webhook.list", {"limit": limit}, EndpointPage):
            yield from page.items

    def update(
        self,
        endpoint_id: str,
        *,
        url: str,
        events: str | Sequence[str] | None = None,
        workflows: str | Sequence[str] | None = None,
        enabled: bool | None = None,
        include_output: bool | None = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> EndpointView:
        """Change a webhook.

        Replaces the address and the filters; the secret stays. A webhook that you enable again gets the events from
        then on; send the ones that were given up with delivery.retry.
        """
        return self._caller.invoke(
            "webhook.update",
            {
                "endpoint_id": endpoint_id,
                "url": url,
                "events": events,
                "workflows": workflows,
                "enabled": enabled,
                "include_output": include_output,
                "description": description,
                "if_match": if_match,
            },
            EndpointView,
            idempotency_key=idempotency_key,
        )

    def delete(self, endpoint_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a webhook.

        Nothing more is sent there, not even what waits to be sent again.
        """
        return self._caller.invoke(
            "webhook.delete",
            {"endpoint_id": endpoint_id, "if_match": if_match},
            Deleted,
            idempotency_key=idempotency_key,
        )

    def rotate(
        self, endpoint_id: str, *, overlap: str | None = None, idempotency_key: str | None = None
    ) -> NewEndpoint:
        """Replace the secret of a webhook.

        The answer contains the new secret, which is shown only once. For the time of `overlap`, events are signed
        with both.
        """
        return self._caller.invoke(
            "webhook.rotate",
            {"endpoint_id": endpoint_id, "overlap": overlap},
            NewEndpoint,
            idempotency_key=idempotency_key,
        )

    def test(self, endpoint_id: str, *, idempotency_key: str | None = None) -> DeliveryView:
        """Send a test event to a webhook.

        Queues an event of type penstock.webhook.test; see its delivery with delivery.get.
        """
        return self._caller.invoke(
            "webhook.test", {"endpoint_id": endpoint_id}, DeliveryView, idempotency_key=idempotency_key
        )

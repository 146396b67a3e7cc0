"""Operations on delivery, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from penstock.client.caller import Caller
from penstock.client.generated.views.delivery import DeliveryPageView, DeliveryView

__all__ = ["Deliveries"]


class Deliveries:
    """Operations on delivery."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        endpoint_id: str,
        *,
        state: Literal["dead", "delivered", "pending"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DeliveryPageView:
        """List the deliveries of a webhook.

        Returns the events that were queued for it, newest first: delivered, on their way, or given up (`dead`)
        after the last attempt. Send one again with delivery.retry.
        """
        return self._caller.invoke(
            "delivery.list",
            {"endpoint_id": endpoint_id, "state": state, "limit": limit, "cursor": cursor},
            DeliveryPageView,
        )

    def list_all(
        self,
        endpoint_id: str,
        *,
        state: Literal["dead", "delivered", "pending"] | None = None,
        limit: int | None = None,
    ) -> Iterator[DeliveryView]:
        """List the deliveries of a webhook: all of them; `limit` is the size of a page."""
        for page in self._caller.pages(
            "delivery.list", {"endpoint_id": endpoint_id, "state": state, "limit": limit}, DeliveryPageView
        ):
            yield from page.items

    def get(self, delivery_id: str) -> DeliveryView:
        """Get a delivery.

        Returns the event as it is sent, how often it was tried, and the last answer of the receiver.
        """
        return self._caller.invoke("delivery.get", {"delivery_id": delivery_id}, DeliveryView)

    def retry(self, delivery_id: str, *, idempotency_key: str | None = None) -> DeliveryView:
        """Send an event again.

        Sends it at once, with the same id and a full set of attempts. This works for events that were delivered or
        given up, too.
        """
        return self._caller.invoke(
            "delivery.retry", {"delivery_id": delivery_id}, DeliveryView, idempotency_key=idempotency_key
        )

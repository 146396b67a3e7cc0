"""What operations on delivery answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["DeliveryPageView", "DeliveryView"]


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """An event on its way to a webhook, and how that went."""

    id: str
    endpoint_id: str
    execution_id: str | None
    event_type: str
    state: str
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

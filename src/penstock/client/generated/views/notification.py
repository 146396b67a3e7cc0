"""What operations on notification answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

import msgspec

__all__ = ["NotificationPage", "NotificationView"]


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

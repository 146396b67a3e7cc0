"""Operations on notification, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.notification import NotificationPage, NotificationView
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncNotifications"]


class AsyncNotifications:
    """Operations on notification."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def set(
        self,
        execution_id: str,
        notification_id: str,
        *,
        url: str,
        format: Literal["a2a/0.3", "a2a/1.0"] | None = None,
        token: str | None = None,
        authentication: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> NotificationView:
        """Notify an address about one run.

        The receiver gets the present status, every question and the end of the run, at least once each. Then the
        notification is deleted. It gets what you may see of the run, for as long as your key is valid.
        """
        return await self._caller.invoke(
            "notification.set",
            {
                "execution_id": execution_id,
                "notification_id": notification_id,
                "url": url,
                "format": format,
                "token": token,
                "authentication": authentication,
            },
            NotificationView,
            idempotency_key=idempotency_key,
        )

    async def get(self, execution_id: str, notification_id: str) -> NotificationView:
        """Get a notification of a run.

        Returns the address and the protocol; never the token. delivery.list shows what was sent, by its
        `endpoint_id`.
        """
        return await self._caller.invoke(
            "notification.get", {"execution_id": execution_id, "notification_id": notification_id}, NotificationView
        )

    async def list(self, execution_id: str) -> NotificationPage:
        """List the notifications of a run.

        A notification is deleted after its final event was delivered, and is then no longer listed.
        """
        return await self._caller.invoke("notification.list", {"execution_id": execution_id}, NotificationPage)

    async def delete(self, execution_id: str, notification_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """Delete a notification of a run.

        Nothing more is sent, not even what waits to be sent again.
        """
        return await self._caller.invoke(
            "notification.delete",
            {"execution_id": execution_id, "notification_id": notification_id},
            Deleted,
            idempotency_key=idempotency_key,
        )

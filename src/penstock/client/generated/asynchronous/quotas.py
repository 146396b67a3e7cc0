"""Operations on quota, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import UNSET, UnsetType

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.quota import QuotaEntry, QuotaPage, QuotaView
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncQuotas"]


class AsyncQuotas:
    """Operations on quota."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def get(self, subject: str, *, tenant: str | None = None) -> QuotaView:
        """Get the quotas and today's usage of a tenant or a key."""
        return await self._caller.invoke("quota.get", {"subject": subject, "tenant": tenant}, QuotaView)

    async def list(
        self, *, tenant: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> QuotaPage:
        """List quotas that were changed.

        Every other tenant and key has the quotas of the settings.
        """
        return await self._caller.invoke("quota.list", {"tenant": tenant, "limit": limit, "cursor": cursor}, QuotaPage)

    async def list_all(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[QuotaEntry]:
        """List quotas that were changed: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("quota.list", {"tenant": tenant, "limit": limit}, QuotaPage):
            for item in page.items:
                yield item

    async def set(
        self,
        subject: str,
        *,
        tenant: str | None = None,
        runs_at_once: int | UnsetType | None = UNSET,
        runs_per_day: int | UnsetType | None = UNSET,
        tokens_per_day: int | UnsetType | None = UNSET,
        cost_per_day: float | UnsetType | None = UNSET,
        storage_bytes: int | UnsetType | None = UNSET,
        idempotency_key: str | None = None,
    ) -> QuotaView:
        """Set the quotas of a tenant or a key.

        Applies from the next start; runs in progress continue. A quota that you leave out stays as in the settings,
        and null lifts it. Only the operator sets the quotas of a whole tenant.
        """
        return await self._caller.invoke(
            "quota.set",
            {
                "subject": subject,
                "tenant": tenant,
                "runs_at_once": runs_at_once,
                "runs_per_day": runs_per_day,
                "tokens_per_day": tokens_per_day,
                "cost_per_day": cost_per_day,
                "storage_bytes": storage_bytes,
            },
            QuotaView,
            idempotency_key=idempotency_key,
        )

    async def reset(self, subject: str, *, tenant: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Reset a tenant or a key to the quotas of the settings."""
        return await self._caller.invoke(
            "quota.reset", {"subject": subject, "tenant": tenant}, Deleted, idempotency_key=idempotency_key
        )

"""Operations on grant, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.grant import GrantPage, GrantView
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncGrants"]


class AsyncGrants:
    """Operations on grant."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        principal: str,
        capabilities: str | Sequence[str],
        expires_in: str,
        high_risk: bool | None = None,
        note: str | None = None,
        idempotency_key: str | None = None,
    ) -> GrantView:
        """Let an agent act by itself for a while.

        Under the preset `strict`, every change by an agent waits for approval. A change that a grant covers does
        not, until the grant ends. A change that could do harm also needs a preflight, an idempotency key and a
        justification.
        """
        return await self._caller.invoke(
            "grant.create",
            {
                "principal": principal,
                "capabilities": capabilities,
                "expires_in": expires_in,
                "high_risk": high_risk,
                "note": note,
            },
            GrantView,
            idempotency_key=idempotency_key,
        )

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> GrantPage:
        """List what agents may do by themselves.

        Expired grants are listed too, until somebody deletes them.
        """
        return await self._caller.invoke("grant.list", {"limit": limit, "cursor": cursor}, GrantPage)

    async def list_all(self, *, limit: int | None = None) -> AsyncIterator[GrantView]:
        """List what agents may do by themselves: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("grant.list", {"limit": limit}, GrantPage):
            for item in page.items:
                yield item

    async def delete(self, grant_id: str, *, idempotency_key: str | None = None) -> Deleted:
        """End a grant now.

        From then on, the changes that it covered wait for approval again.
        """
        return await self._caller.invoke(
            "grant.delete", {"grant_id": grant_id}, Deleted, idempotency_key=idempotency_key
        )

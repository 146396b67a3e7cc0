"""Operations on token, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.shared import Deleted
from penstock.client.generated.views.token import Revocation, RevocationPage

__all__ = ["AsyncTokens"]


class AsyncTokens:
    """Operations on token."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def revoke(
        self,
        *,
        issuer: str,
        token_id: str | None = None,
        subject: str | None = None,
        reason: str | None = None,
        tenant: str | None = None,
        idempotency_key: str | None = None,
    ) -> Revocation:
        """Revoke an access token, or all tokens of a subject.

        Applies from the next request on, and ends calls in progress. A subject also loses the keys that it made.
        """
        return await self._caller.invoke(
            "token.revoke",
            {"issuer": issuer, "token_id": token_id, "subject": subject, "reason": reason, "tenant": tenant},
            Revocation,
            idempotency_key=idempotency_key,
        )

    async def list_revoked(
        self, *, limit: int | None = None, cursor: str | None = None, tenant: str | None = None
    ) -> RevocationPage:
        """List revoked tokens and subjects."""
        return await self._caller.invoke(
            "token.list_revoked", {"limit": limit, "cursor": cursor, "tenant": tenant}, RevocationPage
        )

    async def list_revoked_all(
        self, *, limit: int | None = None, tenant: str | None = None
    ) -> AsyncIterator[Revocation]:
        """List revoked tokens and subjects: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("token.list_revoked", {"limit": limit, "tenant": tenant}, RevocationPage):
            for item in page.items:
                yield item

    async def restore(
        self, revocation_id: str, *, tenant: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Undo a revocation.

        The subject may use tokens again. Keys that ended with the revocation stay revoked.
        """
        return await self._caller.invoke(
            "token.restore",
            {"revocation_id": revocation_id, "tenant": tenant},
            Deleted,
            idempotency_key=idempotency_key,
        )

"""Operations on key, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.key import KeyPage, KeyView, NewKey, SignedOut

__all__ = ["AsyncKeys"]


class AsyncKeys:
    """Operations on key."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        name: str,
        scopes: str | Sequence[str],
        expires_in: str | None = None,
        tenant: str | None = None,
        toolset: str | None = None,
        kind: Literal["agent", "person", "service"] | None = None,
        groups: str | Sequence[str] | None = None,
        subject: str | None = None,
        idempotency_key: str | None = None,
    ) -> NewKey:
        """Create an API key.

        The answer contains the secret, which is not stored; a repeated call with the same idempotency key returns
        it again. A key can do no more than its maker's key: it has no further scopes and tools, and does not
        outlive it. It stands for its maker, unless `subject` names another person.
        """
        return await self._caller.invoke(
            "key.create",
            {
                "name": name,
                "scopes": scopes,
                "expires_in": expires_in,
                "tenant": tenant,
                "toolset": toolset,
                "kind": kind,
                "groups": groups,
                "subject": subject,
            },
            NewKey,
            idempotency_key=idempotency_key,
        )

    async def list(
        self, *, id: str | Sequence[str] | None = None, limit: int | None = None, cursor: str | None = None
    ) -> KeyPage:
        """List API keys.

        Returns ids, names, scopes and last use; never secrets. An owner in the default tenant sees the keys of all
        tenants.
        """
        return await self._caller.invoke("key.list", {"id": id, "limit": limit, "cursor": cursor}, KeyPage)

    async def list_all(
        self, *, id: str | Sequence[str] | None = None, limit: int | None = None
    ) -> AsyncIterator[KeyView]:
        """List API keys: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("key.list", {"id": id, "limit": limit}, KeyPage):
            for item in page.items:
                yield item

    async def get(self, key_id: str) -> KeyView:
        """Get an API key.

        Returns its name, scopes and last use; never its secret.
        """
        return await self._caller.invoke("key.get", {"key_id": key_id}, KeyView)

    async def revoke(self, key_id: str, *, idempotency_key: str | None = None) -> KeyView:
        """Revoke an API key.

        It fails from the next request on, and its calls in progress end. This cannot be undone. A key that may do
        more than yours can only be revoked by somebody who may do as much.
        """
        return await self._caller.invoke("key.revoke", {"key_id": key_id}, KeyView, idempotency_key=idempotency_key)

    async def rotate(
        self, key_id: str, *, overlap: str | None = None, subject: str | None = None, idempotency_key: str | None = None
    ) -> NewKey:
        """Replace an API key.

        Makes a key with the same name, scopes, tools, expiry and subject, and ends the old one, at once or after
        `overlap`. A key is replaced once: of several calls at the same time, one makes the new key. You get its
        secret, so you can replace only keys that you could make: your own, those that stand for you, and with
        `key:subject` those of others.
        """
        return await self._caller.invoke(
            "key.rotate",
            {"key_id": key_id, "overlap": overlap, "subject": subject},
            NewKey,
            idempotency_key=idempotency_key,
        )

    async def sign_out(self, *, principal: str | None = None, idempotency_key: str | None = None) -> SignedOut:
        """End every console session of a person.

        Ends your own sessions in all browsers, or with `key:write` those of another person. Keys and tokens stay
        valid; revoke them to end them.
        """
        return await self._caller.invoke(
            "key.sign_out", {"principal": principal}, SignedOut, idempotency_key=idempotency_key
        )

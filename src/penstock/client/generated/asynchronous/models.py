"""Operations on model, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.model import ModelPage, ModelView
from penstock.client.generated.views.shared import Deleted

__all__ = ["AsyncModels"]


class AsyncModels:
    """Operations on model."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def create(
        self,
        *,
        provider: str,
        model: str,
        id: str,
        base_url: str | None = None,
        api_key_secret: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        prices: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        fallbacks: str | Sequence[str] | None = None,
        timeout_seconds: float | None = None,
        replies: Any = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> ModelView:
        """Register a model.

        Names a provider's model, and the secret that holds its key. Nodes can use it at once. Refused if the id is
        taken.
        """
        return await self._caller.invoke(
            "model.create",
            {
                "provider": provider,
                "model": model,
                "base_url": base_url,
                "api_key_secret": api_key_secret,
                "parameters": parameters,
                "prices": prices,
                "limits": limits,
                "fallbacks": fallbacks,
                "timeout_seconds": timeout_seconds,
                "replies": replies,
                "description": description,
                "id": id,
            },
            ModelView,
            idempotency_key=idempotency_key,
        )

    async def get(self, model_id: str) -> ModelView:
        """Get a model.

        Returns the provider and its name for the model, parameters, prices, limits and fallbacks; never a key.
        """
        return await self._caller.invoke("model.get", {"model_id": model_id}, ModelView)

    async def list(
        self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> ModelPage:
        """List models.

        Returns models by id. Use it to find a model that nodes and agents can name.
        """
        return await self._caller.invoke("model.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, ModelPage)

    async def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> AsyncIterator[ModelView]:
        """List models: all of them; `limit` is the size of a page."""
        async for page in self._caller.pages("model.list", {"prefix": prefix, "limit": limit}, ModelPage):
            for item in page.items:
                yield item

    async def update(
        self,
        model_id: str,
        *,
        provider: str,
        model: str,
        base_url: str | None = None,
        api_key_secret: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        prices: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        fallbacks: str | Sequence[str] | None = None,
        timeout_seconds: float | None = None,
        replies: Any = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> ModelView:
        """Change a model.

        Replaces the whole entry. Send the ETag that you read as If-Match; the call is then refused if the entry has
        changed since.
        """
        return await self._caller.invoke(
            "model.update",
            {
                "model_id": model_id,
                "provider": provider,
                "model": model,
                "base_url": base_url,
                "api_key_secret": api_key_secret,
                "parameters": parameters,
                "prices": prices,
                "limits": limits,
                "fallbacks": fallbacks,
                "timeout_seconds": timeout_seconds,
                "replies": replies,
                "description": description,
                "if_match": if_match,
            },
            ModelView,
            idempotency_key=idempotency_key,
        )

    async def delete(
        self, model_id: str, *, if_match: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        """Delete a model.

        Nodes and agents that name it fail from their next call on.
        """
        return await self._caller.invoke(
            "model.delete", {"model_id": model_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

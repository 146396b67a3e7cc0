"""Operations on preflight, awaited. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.caller import AsyncCaller
from penstock.client.generated.views.preflight import PreflightView

__all__ = ["AsyncPreflights"]


class AsyncPreflights:
    """Operations on preflight."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    async def run(
        self, *, operation: str, arguments: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> PreflightView:
        """Look at what a call would do, without making it.

        Answers with what it would touch, whether it would wait for approval and for whose, a digest of exactly this
        call, and a handle with which the call can be made once. Refused like the call itself.
        """
        return await self._caller.invoke(
            "preflight.run",
            {"operation": operation, "arguments": arguments},
            PreflightView,
            idempotency_key=idempotency_key,
        )

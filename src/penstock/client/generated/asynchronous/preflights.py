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
        """Preview a call without making it.

        Returns what the call would touch, who would have to approve it, a digest of exactly this call, and a
        handle. With the handle, the call can be made once. A preflight is refused where the call itself would be
        refused. Use it before a change that could do harm.
        """
        return await self._caller.invoke(
            "preflight.run",
            {"operation": operation, "arguments": arguments},
            PreflightView,
            idempotency_key=idempotency_key,
        )

"""Operations on preflight, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.caller import Caller
from penstock.client.generated.views.preflight import PreflightView

__all__ = ["Preflights"]


class Preflights:
    """Operations on preflight."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def run(
        self, *, operation: str, arguments: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> PreflightView:
        """Preview a call without making it.

        Returns what the call would touch, who would have to approve it, a digest of exactly this call, and a
        handle. With the handle, the call can be made once. A preflight is refused where the call itself would be
        refused. Use it before a change that could do harm.
        """
        return self._caller.invoke(
            "preflight.run",
            {"operation": operation, "arguments": arguments},
            PreflightView,
            idempotency_key=idempotency_key,
        )

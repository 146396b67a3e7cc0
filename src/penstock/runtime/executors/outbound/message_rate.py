"""Backpressure on senders of messages: a sender that exceeds the limit per second is read more slowly.

Above it: `bounded_body`, `mcp.stdio`.
"""

from __future__ import annotations

import asyncio
import time

from penstock.base import limits

__all__ = ["MessageRateLimiter"]

# Longer than it takes to read a flood between two pauses, even on a busy machine.
_RECENT_SECONDS = 1.0


class MessageRateLimiter:
    """Counts messages, and waits when more arrive in a second than are allowed."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._messages = 0
        self._slowed_until: float | None = None

    def is_throttled(self) -> bool:
        """True if the sender is being slowed down, or was a moment ago."""
        until = self._slowed_until
        return until is not None and time.monotonic() < until + _RECENT_SECONDS

    async def count(self, messages: int) -> None:
        """Count messages that arrived. Waits if there were too many."""
        now = time.monotonic()
        if now - self._begun >= 1.0:
            self._begun, self._messages = now, 0
        self._messages += messages
        if self._messages > limits.UPSTREAM_MESSAGES_PER_SECOND:
            seconds = self._messages / limits.UPSTREAM_MESSAGES_PER_SECOND - (now - self._begun)
            self._slowed_until = now + max(seconds, 0.0)
            await asyncio.sleep(max(seconds, 0.0))
            self._begun, self._messages = time.monotonic(), 0

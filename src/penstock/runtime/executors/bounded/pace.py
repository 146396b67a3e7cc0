"""How fast somebody may send messages: whoever sends more is read more slowly, so that everybody else has their turn.

Above it: `bodies`, `pipe`. Below it: nothing.
"""

from __future__ import annotations

import asyncio
import time

from penstock.base import limits

__all__ = ["Pace"]

# Longer than what is read of a flood between two pauses takes, on a busy machine too.
_A_MOMENT_SECONDS = 1.0


class Pace:
    """Counts messages, and waits when there are more of them in a second than are read."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._messages = 0
        self._slowed_until: float | None = None

    def has_slowed(self) -> bool:
        """Whether somebody sends, or has sent until a moment ago, more than is read."""
        until = self._slowed_until
        return until is not None and time.monotonic() < until + _A_MOMENT_SECONDS

    async def count(self, messages: int) -> None:
        """So many messages came."""
        now = time.monotonic()
        if now - self._begun >= 1.0:
            self._begun, self._messages = now, 0
        self._messages += messages
        if self._messages > limits.UPSTREAM_MESSAGES_PER_SECOND:
            seconds = self._messages / limits.UPSTREAM_MESSAGES_PER_SECOND - (now - self._begun)
            self._slowed_until = now + max(seconds, 0.0)
            await asyncio.sleep(max(seconds, 0.0))
            self._begun, self._messages = time.monotonic(), 0

"""How fast somebody may send messages: whoever sends more is read more slowly, so that everybody else has their turn.

Above it: `bodies`, `pipe`. Below it: nothing.
"""

from __future__ import annotations

import asyncio
import time

from penstock.base import limits

__all__ = ["Pace"]


class Pace:
    """Counts messages, and waits when there are more of them in a second than are read."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._messages = 0

    async def count(self, messages: int) -> None:
        """So many messages came."""
        now = time.monotonic()
        if now - self._begun >= 1.0:
            self._begun, self._messages = now, 0
        self._messages += messages
        if self._messages > limits.UPSTREAM_MESSAGES_PER_SECOND:
            seconds = self._messages / limits.UPSTREAM_MESSAGES_PER_SECOND - (now - self._begun)
            await asyncio.sleep(max(seconds, 0.0))
            self._begun, self._messages = time.monotonic(), 0

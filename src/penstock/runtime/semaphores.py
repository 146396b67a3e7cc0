"""A turnstile: so many at once, the others in the order in which they came.

What asyncio's locks and semaphores do, made for the case that there is room, which is nearly always: entering is then a
plain call and not a coroutine. The work of a short step goes through two of them.

Above it: the host (one transition of a run at a time), the driver (so many activities at once).
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Turnstile"]


class Turnstile:
    """Lets a number of holders in. Whoever entered must leave."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int = 1) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Enter if there is room; then no waiting is needed."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    def locked(self) -> bool:
        """Whether there is no room."""
        return self._free <= 0

    async def enter(self) -> None:
        """Enter, after everybody who came before."""
        if self.try_enter():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place was handed over just now, to somebody who gave up
            raise

    def leave(self) -> None:
        """Hand the place over to whoever waits longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *error: object) -> None:
        self.leave()

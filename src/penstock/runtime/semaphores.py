"""A fair semaphore that is entered without a coroutine when there is room.

It works as `asyncio.Semaphore` does: waiters are served in the order in which they came. It exists because there is
nearly always room, and then `try_acquire` is a plain call. Every short step takes two of these; asyncio's semaphore
costs about four times as much for each, and anyio's lock six times.

Above it: the host (one transition of a run at a time), the driver (a bounded number of activities at once).
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["FairSemaphore"]


class FairSemaphore:
    """Admits a bounded number of holders; with one place, it is a lock. Whoever acquired must release."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int = 1) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Acquire if there is room, without waiting."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    def locked(self) -> bool:
        """Whether there is no room."""
        return self._free <= 0

    async def acquire(self) -> None:
        """Acquire, after everybody who came before."""
        if self.try_acquire():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release()  # the place was handed over at the moment in which this waiter gave up
            raise

    def release(self) -> None:
        """Hand the place over to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *error: object) -> None:
        self.release()

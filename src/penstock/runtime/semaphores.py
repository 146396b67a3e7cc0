"""A fair semaphore that can be acquired without a coroutine if it is free.

It works like `asyncio.Semaphore`: waiters are served in order of arrival. It exists because it is nearly always free,
and then `try_acquire` is a plain call. Every short step acquires two of these; asyncio's semaphore costs about four
times as much for each, and anyio's lock six times.

Above it: the host (one transition of a run at a time), the driver (a bounded number of activities at once).
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["FairSemaphore"]


class FairSemaphore:
    """Admits a bounded number of holders; with one place, it is a lock. Every acquire needs a release."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int = 1) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Acquire without waiting, if it is free."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    def locked(self) -> bool:
        """Whether it cannot be acquired without waiting."""
        return self._free <= 0

    async def acquire(self) -> None:
        """Acquire, in order of arrival."""
        if self.try_acquire():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release()  # the place was passed to this waiter just as it gave up
            raise

    def release(self) -> None:
        """Pass the place to the longest waiter, or free it."""
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

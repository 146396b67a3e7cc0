"""Whether the caller is still there.

A call that changes something is carried through although its caller hangs up: what it stored has an answer and an audit
record. Only what it would have waited for then, for the caller's sake, is not waited for any more.

Above it: `pipeline` notices that a caller has left, handlers wait with `while_there`. Below it: asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["Presence"]

T = TypeVar("T")


class Presence:
    """The caller of one call."""

    __slots__ = ("_waits", "gone")

    def __init__(self) -> None:
        self.gone = False
        self._waits: asyncio.Task[object] | None = None

    def leave(self) -> None:
        """The caller has gone; what waits for its sake stops waiting."""
        self.gone = True
        if self._waits is not None:
            self._waits.cancel()

    async def while_there(self, waiting: Callable[[], Awaitable[T]]) -> T | None:
        """What some waiting gives, which changes nothing; None as soon as the caller has gone."""
        if self.gone:
            return None
        self._waits = task = asyncio.current_task()
        try:
            return await waiting()
        except asyncio.CancelledError:
            if task is None or not self._left():
                raise
            task.uncancel()
            return None
        finally:
            self._waits = None

    def _left(self) -> bool:
        return self.gone

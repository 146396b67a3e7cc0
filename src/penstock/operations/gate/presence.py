"""Whether the caller is still there, and still may be.

A call that changes something is carried through although its caller hangs up: what it stored has an answer and an audit
record. Only what it would have waited for then, for the caller's sake, is not waited for any more. A caller whose key
is revoked is sent away at once; what becomes of the call is the same.

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

    __slots__ = ("_caller", "_waits", "gone", "revoked")

    def __init__(self, caller: asyncio.Task[object] | None = None) -> None:
        self.gone = False
        self.revoked = False
        """Whether the caller was sent away."""
        self._caller = caller
        self._waits: asyncio.Task[object] | None = None

    def revoke(self) -> None:
        """The caller may not wait any longer: it is interrupted where it does."""
        if self._caller is not None and not self.revoked:
            self.revoked = True
            self._caller.cancel()

    def leave(self) -> None:
        """The caller has gone; what waits for its sake stops waiting."""
        self.gone = True
        self._caller = None
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

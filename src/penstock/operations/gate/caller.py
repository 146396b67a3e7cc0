"""The caller of one call: whether it is still connected, and still allowed to wait.

A call that changes something runs to its end even if its caller disconnects, so that the change has an answer and an
audit record. It only stops waiting for things that the caller alone would have waited for. A caller whose key is
revoked is refused at once; the call itself ends the same way.

Above it: `pipeline` notices that a caller has disconnected; handlers wait with `while_connected`. Below it: asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["Caller"]

T = TypeVar("T")


class Caller:
    """The caller of one call."""

    __slots__ = ("_task", "_waits", "is_gone", "revoked")

    def __init__(self, task: asyncio.Task[object] | None = None) -> None:
        self.is_gone = False
        self.revoked = False
        """Whether the caller was refused because its key is no longer valid."""
        self._task = task
        self._waits: asyncio.Task[object] | None = None

    def revoke(self) -> None:
        """Interrupt the caller where it waits: its key is no longer valid."""
        if self._task is not None and not self.revoked:
            self.revoked = True
            self._task.cancel()

    def disconnect(self) -> None:
        """Mark the caller as gone, and cancel what waits on its behalf."""
        self.is_gone = True
        self._task = None
        if self._waits is not None:
            self._waits.cancel()

    async def while_connected(self, waiting: Callable[[], Awaitable[T]]) -> T | None:
        """Return the result of a wait that changes nothing; None as soon as the caller has gone."""
        if self.is_gone:
            return None
        self._waits = task = asyncio.current_task()
        try:
            return await waiting()
        except asyncio.CancelledError:
            if task is None or not self._has_gone():
                raise
            task.uncancel()
            return None
        finally:
            self._waits = None

    def _has_gone(self) -> bool:
        # A method, because mypy would otherwise narrow `is_gone` to its value before the wait.
        return self.is_gone

"""Time as a port: whoever needs to know the time is given a clock.

The pure layers never ask; their inputs carry the time. Instants are epoch milliseconds.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock", "ManualClock"]


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """The present instant in epoch milliseconds."""


class ManualClock:
    """A clock that stands still until it is told to move: for tests and simulations."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The instant it was last set to."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Move forward (or back)."""
        self._now_ms += by_ms

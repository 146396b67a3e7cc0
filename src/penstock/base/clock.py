"""Time as a port: whoever needs to know the time is given a clock.

The pure layers never ask; their inputs carry the time. Instants are epoch milliseconds, and somebody may set them back
or forward; what has to be a length of time is measured with the other clock, which nobody sets.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock", "ManualClock"]


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """The present instant in epoch milliseconds."""

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment; never goes back, and goes on while the process or the machine sleeps."""


class ManualClock:
    """A clock that stands still until it is told to move: for tests and simulations."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        """The instant it was last set to."""
        return self._now_ms

    def elapsed_ms(self) -> int:
        """What was told to elapse."""
        return self._elapsed_ms

    def advance(self, by_ms: int) -> None:
        """Set the time of day forward (or back)."""
        self._now_ms += by_ms

    def elapse(self, by_ms: int) -> None:
        """Let time pass."""
        self._now_ms += by_ms
        self._elapsed_ms += by_ms

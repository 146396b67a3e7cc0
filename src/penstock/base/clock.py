"""The clock protocol: code that needs the time is given a clock.

The pure layers never ask for the time; their inputs carry it. Instants are epoch milliseconds, which may jump when
somebody sets the machine's clock. Lengths of time are measured with `elapsed_ms`, which never jumps.
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
    """A clock that moves only when a test or a simulation moves it."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        """The instant it was last set to."""
        return self._now_ms

    def elapsed_ms(self) -> int:
        """The sum of all calls of `elapse`."""
        return self._elapsed_ms

    def advance(self, by_ms: int) -> None:
        """Set the time of day forward (or back)."""
        self._now_ms += by_ms

    def elapse(self, by_ms: int) -> None:
        """Let time pass."""
        self._now_ms += by_ms
        self._elapsed_ms += by_ms

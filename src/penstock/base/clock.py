"""The clock protocol: code that needs the time receives a clock.

The pure layers never read the time; their inputs carry it. Instants are epoch milliseconds, which may jump when
somebody sets the machine's clock. Durations are measured with `elapsed_ms`, which never jumps.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock", "ManualClock"]


class Clock(Protocol):
    """Provides the time."""

    def now_ms(self) -> int:
        """The current instant in epoch milliseconds."""

    def elapsed_ms(self) -> int:
        """Milliseconds since some fixed moment; never decreases, and continues while the machine sleeps."""


class ManualClock:
    """A clock that moves only when a test or a simulation moves it."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        """The instant that the clock was last set to."""
        return self._now_ms

    def elapsed_ms(self) -> int:
        """The sum of all calls of `elapse`."""
        return self._elapsed_ms

    def advance(self, by_ms: int) -> None:
        """Move the time of day forward (or back); no time elapses."""
        self._now_ms += by_ms

    def elapse(self, by_ms: int) -> None:
        """Let time pass: both the time of day and the elapsed time move forward."""
        self._now_ms += by_ms
        self._elapsed_ms += by_ms

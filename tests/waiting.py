"""Polling: wait until a condition holds that nothing reports. This is the only place where tests sleep and look again.

Above it: every test that waits for such a condition. A test that can await an event, a task or a line that a process
prints awaits that directly.

Every wait has a bound, so that a test that cannot succeed ends. The bound is far longer than any test takes: a test
fails because something is wrong, never because the machine is busy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["SECONDS_MAX", "turns", "until", "until_found", "wait_until"]

SECONDS_MAX = 240.0
"""Generous: the machine may be busy with other things."""
_PAUSE_SECONDS = 0.01

_Found = TypeVar("_Found")


async def until_found(look: Callable[[], Awaitable[_Found | None]], seconds_max: float = SECONDS_MAX) -> _Found:
    """Call `look` until it returns something, and return that."""
    async with asyncio.timeout(seconds_max):
        while (found := await look()) is None:  # noqa: ASYNC110  # there is no event to await
            await asyncio.sleep(_PAUSE_SECONDS)
        return found


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds_max: float = SECONDS_MAX) -> None:
    """Return as soon as the condition holds."""

    async def look() -> bool | None:
        said = holds()
        return (said if isinstance(said, bool) else await said) or None

    await until_found(look, seconds_max)


def wait_until(holds: Callable[[], object], seconds_max: float = SECONDS_MAX) -> None:
    """Block the thread until the condition holds; for tests without an event loop."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it does not hold after {seconds_max:g} s")
        time.sleep(_PAUSE_SECONDS)


async def turns(count: int = 100) -> None:
    """Yield to the event loop this many times, so that everything that is ready to run has run."""
    for _ in range(count):
        await asyncio.sleep(0)

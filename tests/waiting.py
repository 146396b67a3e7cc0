"""Waiting until something holds of which nobody tells: the one place where tests look again after a pause.

Above it: every test that waits for what it cannot be told. What can be waited for, an event, a task or a line that a
process prints, is waited for by itself.

Every wait of a test has a bound, so that a test that cannot succeed ends. It is far longer than any test takes: a test
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
    """What a look finds, as soon as it finds something."""
    async with asyncio.timeout(seconds_max):
        while (found := await look()) is None:  # noqa: ASYNC110  # there is no event, or it would be waited for
            await asyncio.sleep(_PAUSE_SECONDS)
        return found


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds_max: float = SECONDS_MAX) -> None:
    """Return as soon as it holds."""

    async def look() -> bool | None:
        said = holds()
        return (said if isinstance(said, bool) else await said) or None

    await until_found(look, seconds_max)


def wait_until(holds: Callable[[], object], seconds_max: float = SECONDS_MAX) -> None:
    """Return as soon as it holds; for tests without an event loop. It blocks the thread."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it does not hold after {seconds_max:g} s")
        time.sleep(_PAUSE_SECONDS)


async def turns(count: int = 100) -> None:
    """Let everybody else have this many turns of the event loop: what is ready to happen has happened then."""
    for _ in range(count):
        await asyncio.sleep(0)

"""Waiting until something holds of which nobody tells: the one place where tests look again after a pause.

Above it: every test that waits for what it cannot be told. What can be waited for, an event, a task or a line that a
process prints, is waited for by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["SECONDS_MAX", "until", "until_found"]

SECONDS_MAX = 60.0
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

"""Wait for runs to move with a timeout. Waits that end at about the same time share a timer.

Above it: hosts, the operations that wait for runs. Below it: the host port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import ceil
from weakref import WeakKeyDictionary

from penstock.runtime.ports.host import Moved

__all__ = ["moved_within"]

# Shorter waits have a timer of their own, precise to the millisecond; for longer ones a quarter of a second is no
# matter.
_SHARED_SECONDS_MIN, _SHARED_TICK_SECONDS = 5.0, 0.25
_TICKS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, set[Moved]]] = WeakKeyDictionary()


async def moved_within(moved: Moved, timeout_seconds: float) -> None:
    """Wait until a run has moved, or until the timeout; cheaper than `asyncio.wait` by two turns of the loop.

    Waits rarely time out, and a timer for each would cost more than everything else. So long waits share a timer with
    others that end at about the same time, and may last up to `_SHARED_TICK_SECONDS` longer.
    """
    loop = asyncio.get_running_loop()
    if timeout_seconds < _SHARED_SECONDS_MIN:
        timer = loop.call_later(max(timeout_seconds, 0), _wake_all, (moved,))
        try:
            await moved
        finally:
            timer.cancel()
        return
    waiting = _waiters_until(loop, ceil((loop.time() + timeout_seconds) / _SHARED_TICK_SECONDS))
    waiting.add(moved)
    try:
        await moved
    finally:
        waiting.discard(moved)


def _waiters_until(loop: asyncio.AbstractEventLoop, tick: int) -> set[Moved]:
    """Return the waiters whose timeout falls on one tick of the loop's clock."""
    ticks = _TICKS.get(loop)
    if ticks is None:
        ticks = _TICKS[loop] = {}
    waiting = ticks.get(tick)
    if waiting is None:
        waiting = ticks[tick] = set()
        loop.call_at(tick * _SHARED_TICK_SECONDS, _time_out, ticks, tick)
    return waiting


def _time_out(ticks: dict[int, set[Moved]], tick: int) -> None:
    _wake_all(tuple(ticks.pop(tick)))


def _wake_all(waiting: Iterable[Moved]) -> None:
    for moved in waiting:
        if not moved.done():
            moved.set_result(None)

"""Waits with a timeout: many that end at about the same time cost one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.runtime import shared_timeouts
from penstock.runtime.ports.host import Moved
from penstock.runtime.shared_timeouts import moved_within
from tests.waiting import SECONDS_MAX


def test_those_who_wait_for_long_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        loop, timers = asyncio.get_running_loop(), 0
        call_at = loop.call_at

        def counted(when: float, callback: Callable[..., object], *given: object) -> asyncio.TimerHandle:
            nonlocal timers
            timers += 1
            return call_at(when, callback, *given)

        waiting: list[Moved] = [loop.create_future() for _ in range(100)]
        woken: Moved = loop.create_future()
        loop.call_soon(woken.set_result, None)
        monkeypatch.setattr(loop, "call_at", counted)
        monkeypatch.setattr(shared_timeouts, "_SHARED_SECONDS_MIN", 0.01)
        began = loop.time()
        async with asyncio.timeout(SECONDS_MAX):
            timers = 0
            await asyncio.gather(*(moved_within(moved, 0.05) for moved in waiting), moved_within(woken, 0.05))
        assert loop.time() - began >= 0.05
        assert timers <= 2  # one, or two if a tick of the clock came in between
        assert all(moved.result() is None for moved in waiting)
        assert not any(shared_timeouts._TICKS[loop].values())

    asyncio.run(body())

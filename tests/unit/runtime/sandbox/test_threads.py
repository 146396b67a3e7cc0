"""Threads that are shared fairly."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.runtime.sandbox.threads import FairThreadPool
from tests.waiting import SECONDS_MAX


def test_whoever_asks_for_much_does_not_make_others_wait() -> None:
    async def body() -> None:
        threads = FairThreadPool("test", places=3, per_holder=2)
        may_end = threading.Event()
        greedy = [asyncio.ensure_future(threads.run("greedy", may_end.wait, SECONDS_MAX)) for _ in range(10)]
        await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS_MAX):
            assert await threads.run("modest", lambda: "done") == "done"
        assert not any(task.done() for task in greedy)
        may_end.set()
        assert await asyncio.gather(*greedy) == [True] * 10
        threads.close()

    asyncio.run(body())


def test_those_who_wait_get_their_turn_one_after_the_other() -> None:
    async def body() -> None:
        threads = FairThreadPool("test", places=1, per_holder=1)
        may_end, order = threading.Event(), list[str]()
        first = asyncio.ensure_future(threads.run("a", may_end.wait, SECONDS_MAX))
        await asyncio.sleep(0)
        waiting = [
            asyncio.ensure_future(threads.run(holder, order.append, holder)) for holder in ("a", "a", "a", "b", "c")
        ]
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.gather(first, *waiting)
        assert sorted(order[:3]) == ["a", "b", "c"]
        threads.close()

    asyncio.run(body())


def test_a_caller_that_is_cancelled_gives_its_place_back_when_its_work_is_done() -> None:
    async def body() -> None:
        threads = FairThreadPool("test", places=1, per_holder=1)
        may_end = threading.Event()
        working = asyncio.ensure_future(threads.run("a", may_end.wait, SECONDS_MAX))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(threads.run("b", lambda: 1))
        last = asyncio.ensure_future(threads.run("c", lambda: 2))
        await asyncio.sleep(0)
        working.cancel()
        waiting.cancel()
        for task in (working, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not last.done()
        may_end.set()
        assert await asyncio.wait_for(last, SECONDS_MAX) == 2
        threads.close()

    asyncio.run(body())


def test_what_a_function_raises_comes_back() -> None:
    async def body() -> None:
        threads = FairThreadPool("test", places=1, per_holder=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run("a", lambda: 1 / 0)
        threads.close()

    asyncio.run(body())

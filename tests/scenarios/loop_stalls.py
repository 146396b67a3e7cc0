"""How long the event loop was busy at a stretch, in processor time: a busy machine does not change it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TypeVar

__all__ = ["STALL_SECONDS_MAX", "HeldUpError", "Stalls", "in_tries", "watched_loop"]

STALL_SECONDS_MAX = 0.05
"""Processor time that one step of the loop may take, whatever others send."""


_TRIES = 10

_Given = TypeVar("_Given")


class HeldUpError(AssertionError):
    """The loop was held up."""


class Stalls:
    """How much processor time the loop took at a stretch, at most."""

    worst = 0.0

    def check(self, what: str) -> None:
        """Complain if it was too much."""
        if self.worst >= STALL_SECONDS_MAX:
            raise HeldUpError(f"{what} took {self.worst * 1000:.0f} ms at a stretch")


async def in_tries(work: Callable[[], Awaitable[_Given]]) -> _Given:
    """What some work gives that does not hold up the loop, in one of ten tries at least.

    What the code does takes as long every time. A machine that is shared takes a processor away at times and counts
    that as time of the thread, which would be a complaint about the machine.
    """
    for _ in range(_TRIES - 1):
        with suppress(HeldUpError):
            return await work()
    return await work()


@cache
def _keep_out_of_collections() -> None:
    """Once, as in a server: how much was alive at the last full collection also says when the next one is due."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Stalls]:
    """Watch the loop until the block ends.

    What is loaded already is kept out of garbage collections, as the server does when it has started, and stays out:
    otherwise each full collection would look at everything that the tests have ever loaded.
    """
    _keep_out_of_collections()
    stalls = Stalls()

    async def watch() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            stalls.worst = max(stalls.worst, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    try:
        await asyncio.sleep(0)  # it looks at the clock for the first time
        yield stalls
    finally:
        await asyncio.sleep(0)  # and once more: the last step of the block may be the long one
        watching.cancel()

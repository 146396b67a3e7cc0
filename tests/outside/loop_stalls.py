"""How long the event loop was busy at a stretch, in processor time: a busy machine does not change it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["STALL_SECONDS_MAX", "Stalls", "watched_loop"]

STALL_SECONDS_MAX = 0.05
"""Processor time that one step of the loop may take, whatever others send."""


class Stalls:
    """How much processor time the loop took at a stretch, at most."""

    worst = 0.0


@asynccontextmanager
async def watched_loop() -> AsyncIterator[Stalls]:
    """Watch the loop until the block ends.

    What is loaded already is kept out of garbage collections, as the server does when it has started, and stays out:
    otherwise each full collection would look at everything that the tests have ever loaded.
    """
    stalls = Stalls()

    async def watch() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            stalls.worst = max(stalls.worst, time.thread_time() - before)

    gc.collect()
    gc.freeze()
    watching = asyncio.create_task(watch())
    try:
        await asyncio.sleep(0)  # it looks at the clock for the first time
        yield stalls
    finally:
        await asyncio.sleep(0)  # and once more: the last step of the block may be the long one
        watching.cancel()

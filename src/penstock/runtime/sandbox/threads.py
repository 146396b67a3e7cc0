"""Fair thread pools for work that takes long: a holder that asks for much delays only itself.

Each purpose has threads of its own, so that a busy one does not hold up another. A holder (a tenant, a caller) gets at
most a share of the threads. Waiting holders take turns.

Above it: decisions, queries, webhooks, document checks. It belongs to one event loop, and starts no processes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, Self, TypeVar

from penstock.base import limits

__all__ = ["FairThreadPool"]

P = ParamSpec("P")
T = TypeVar("T")


class FairThreadPool:
    """A fixed number of threads, of which each holder gets at most a share at a time."""

    def __init__(self, name: str, *, places: int, per_holder: int) -> None:
        self._name = name
        self._places = places
        self._per_holder = per_holder
        self._threads: ThreadPoolExecutor | None = None
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @classmethod
    def for_workers(cls, name: str) -> Self:
        """A pool of threads that wait for the workers of an evaluator."""
        return cls(name, places=limits.JQ_WORKERS_MAX, per_holder=limits.JQ_WORKERS_PER_HOLDER)

    async def run(self, holder: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread when it is the holder's turn, and return its result."""
        if not self._may_begin(holder):
            await self._turn(holder)
        else:
            self._held[holder] += 1
        loop = asyncio.get_running_loop()

        def ended(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._leave, holder)

        try:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._places, thread_name_prefix=self._name)
            work = self._threads.submit(function, *args, **kwargs)
        except BaseException:
            self._leave(holder)
            raise
        # The place stays taken until the thread is done, even if nobody waits for it any more.
        work.add_done_callback(ended)
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        """Start nothing more, without waiting for work in progress."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    def _may_begin(self, holder: str) -> bool:
        return self._held.total() < self._places and self._held[holder] < self._per_holder

    async def _turn(self, holder: str) -> None:
        """Wait for a place, which is taken when this returns."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave(holder)
            raise

    def _leave(self, holder: str) -> None:
        self._held[holder] -= 1
        if not self._held[holder]:
            del self._held[holder]
        for name in list(self._waiting):
            if self._held.total() >= self._places:
                return
            self._give(name)

    def _give(self, holder: str) -> None:
        """Give a holder its next place if it may have one, and move it behind all others."""
        waiting = self._waiting[holder]
        while waiting and waiting[0].done():
            waiting.popleft()
        if waiting and self._may_begin(holder):
            self._held[holder] += 1
            waiting.popleft().set_result(None)
            self._waiting.move_to_end(holder)
        if not waiting:
            del self._waiting[holder]

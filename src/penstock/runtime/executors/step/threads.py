"""Threads for functions that block. They never keep the process from exiting.

The standard thread pool waits at exit for whatever its threads are doing. A step is performed again after a restart, so
waiting for one that blocks would only delay the exit. These threads are daemons, and are abandoned.

Above it: the step executor, `processes`. All it knows about steps is that another process may have taken them over.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.base.errors import Unavailable
from penstock.runtime.activities.performing import ActivityCall

__all__ = ["DaemonThreads", "confirmed_in_thread"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Job(Generic[T]):
    work: Callable[[], T]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T]

    def perform(self) -> None:
        """Do the work and report to the loop. Skips work whose caller is gone before it starts."""
        if self.future.cancelled():
            return
        try:
            value = self.context.run(self.work)
        except BaseException as error:  # the caller decides what any error means
            self._tell(self._fail, error)
        else:
            self._tell(self._finish, value)

    def _tell(self, callback: Callable[[Any], None], outcome: object) -> None:
        try:
            self.loop.call_soon_threadsafe(callback, outcome)
        except RuntimeError:
            return  # the loop is closed, and the waiting caller with it

    def _finish(self, value: T) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            # A future cannot carry StopIteration, and other BaseExceptions would stop the loop.
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            self.future.set_exception(error if plain else RuntimeError(f"{type(error).__name__}: {error}"))


def confirmed_in_thread(call: ActivityCall, loop: asyncio.AbstractEventLoop) -> bool:
    """`ActivityCall.confirm` for the thread that is about to do the work. False if it must not."""
    if call.ownership is None or call.ownership.holds():
        return True
    try:
        asyncio.run_coroutine_threadsafe(call.confirm(), loop).result()
    except (concurrent.futures.CancelledError, RuntimeError):  # taken over by another process, or the loop is closed
        return False
    return True


class DaemonThreads:
    """Runs blocking functions, up to a maximum at a time. Threads are created when they are needed."""

    def __init__(self, threads_max: int, *, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._waiting = 0
        self._closed = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function with the caller's context variables."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._closed:
                raise Unavailable("EXECUTOR_CLOSED", "the executor is closed")
            self._waiting += 1
            wants_thread = self._waiting > self._idle and self._threads < self._threads_max
            self._threads += wants_thread
            number = self._threads
        if wants_thread:
            threading.Thread(target=self._work, name=f"{self._name}-{number}", daemon=True).start()
        self._queue.put(_Job(work, contextvars.copy_context(), loop, future))
        return future

    def close(self) -> None:
        """Let idle threads end. Work in progress is abandoned."""
        with self._lock:
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._queue.put(None)

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._queue.get()
            with self._lock:
                self._idle -= 1
                self._waiting -= job is not None
            if job is None:
                return
            job.perform()
            del job  # otherwise the thread would keep the last result alive while it waits

"""Commits that outlive the caller who asked for them.

A caller may be cancelled at any `await`: a client hangs up, a timeout expires. A write that is on its way to the disk
is stored anyway, so everything that follows from it must happen too. A `Commit` is a future that cannot be cancelled: a
task that is cancelled while it waits for one notices when the commit is settled, which takes as long as the disk takes.
It costs no task and no turn of the loop. `and_then` registers what follows from a commit; it runs together with the
commit, whether anybody waits or not. `ShieldedTasks` is for work of several steps, and uses a task.

Above it: the stores create commits, the host waits for them. Below it: asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any, Generic, TypeVar

__all__ = ["Commit", "ShieldedTasks", "commit_of", "in_this_context", "settled"]

T = TypeVar("T")


class Commit(asyncio.Future[T], Generic[T]):
    """A future that cannot be cancelled; see the module docstring."""

    _follow: Callable[[T | None], None] | None = None

    def and_then(self, follow: Callable[[T | None], None]) -> None:
        """Register a callback that runs once it is settled, before waiters continue; it gets None on failure."""
        if self.done():
            follow(None if self.exception() is not None else self.result())
        else:
            self._follow = follow

    def settle(self, outcome: T) -> None:
        """Complete the commit.

        The result is set first, so that its caller resumes before the tasks that the callback wakes.
        """
        self.set_result(outcome)
        self._run_follow_up(outcome)

    def fail(self, error: BaseException) -> None:
        """Fail the commit: nothing was stored."""
        self.set_exception(error)
        self._run_follow_up(None)

    def _run_follow_up(self, outcome: T | None) -> None:
        if self._follow is None:
            return
        try:
            self._follow(outcome)
        except Exception as error:  # the write is durable, and other writes were stored with it
            context = {"message": "what follows from a commit failed", "exception": error, "future": self}
            self.get_loop().call_exception_handler(context)

    def cancel(self, msg: Any | None = None) -> bool:
        """Refuse: a write that the store has cannot be undone."""
        return False


def in_this_context(follow: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a callback that runs in the context variables of the current caller, as do the tasks it starts."""
    context = copy_context()
    return lambda outcome: context.run(follow, outcome)


def settled(outcome: T) -> Commit[T]:
    """Return a finished commit, for stores that need not wait."""
    commit: Commit[T] = Commit(loop=asyncio.get_running_loop())
    commit.set_result(outcome)
    return commit


def commit_of(appending: Awaitable[T]) -> Commit[T]:
    """Return a store's result as a commit. For any other awaitable, start a task."""
    if isinstance(appending, Commit):
        return appending
    work = asyncio.ensure_future(appending)
    commit: Commit[T] = Commit(loop=work.get_loop())

    def settle(done: asyncio.Future[T]) -> None:
        if done.cancelled():
            commit.fail(asyncio.CancelledError())
        elif (error := done.exception()) is not None:
            commit.fail(error)
        else:
            commit.settle(done.result())

    work.add_done_callback(settle)
    return commit


class ShieldedTasks:
    """Work of several steps that runs to its end even if its caller is cancelled."""

    def __init__(self) -> None:
        self._in_progress: set[asyncio.Future[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work in a task that survives the caller's cancellation, and return its result."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._run_and_forward(work, outcome))
        self._in_progress.add(task)
        try:
            return await outcome
        finally:
            if task.done():
                self._in_progress.discard(task)
            else:  # the caller was cancelled, or the task is about to end
                task.add_done_callback(self._in_progress.discard)

    async def _run_and_forward(self, work: Coroutine[Any, Any, T], outcome: asyncio.Future[T]) -> None:
        """Pass the result to the caller, if it still waits. Not `shield`, which takes two turns of the loop."""
        try:
            result = await work
        except BaseException as error:
            if outcome.done():
                raise
            if isinstance(error, asyncio.CancelledError):
                outcome.cancel()
            else:
                outcome.set_exception(error)
        else:
            if not outcome.done():
                outcome.set_result(result)

    async def finish(self) -> None:
        """Wait for the work in progress: for a process that stops."""
        while self._in_progress:
            await asyncio.wait(tuple(self._in_progress))

"""Executors that are created when an activity first needs them.

Importing a library and reading a secret take time. Neither delays the start, or runs that need neither. Both happen in
a thread. After an unexpected error, the executor is created again with growing pauses, until it succeeds or the attempt
is cancelled. `ExecutorStatus` reports this in health, in the log and on the page of the run. If a library is not
installed, the attempt fails.

Above it: `Penstock`, `configured`. Below it: executors of any kind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.base.errors import PenstockError, Unavailable
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, AsyncPerformer

__all__ = ["ClosableExecutor", "ExecutorStatus", "LazyExecutor"]

_LOGGER = logging.getLogger("penstock.executors")
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 30.0


_LOG_AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class ExecutorStatus:
    """The executors that cannot be created now, by the type of their nodes."""

    tell: Callable[[ActivityCall, int, str], None] = lambda call, level, message: None
    """Shows a line on the page of a run."""
    problems: dict[str, str] = field(default_factory=dict)
    _logged_at: dict[str, float] = field(default_factory=dict)

    def health(self) -> str:
        """Return the state for `system.health`."""
        return "; ".join(self.problems.values()) or "ok"

    def failed(self, call: ActivityCall, error: Exception, *, is_first: bool) -> None:
        """Note that an executor could not be created.

        Logged once a minute, and once for each run that begins to wait.
        """
        named, now = call.activity.node_type, time.monotonic()
        problem = f"{named} cannot be created: {type(error).__name__}: {call.masked(str(error))}"
        self.problems[named] = problem
        if is_first:
            self.tell(call, logging.WARNING, f"The executor of {problem}. Trying again.")
        if now - self._logged_at.get(named, -_LOG_AGAIN_SECONDS) >= _LOG_AGAIN_SECONDS:
            self._logged_at[named] = now
            _LOGGER.error("the executor of %s; trying again", problem, exc_info=error)

    def made(self, call: ActivityCall) -> None:
        """Note that an executor was created."""
        self.problems.pop(call.activity.node_type, None)


class ClosableExecutor(AsyncPerformer, Protocol):
    """An executor that holds resources."""

    async def close(self) -> None:
        """Release the resources."""


def _no_name(call: ActivityCall) -> object:
    return None


@dataclass(slots=True, kw_only=True)
class LazyExecutor:
    """An executor that is created when first needed. Each of its entries is prepared when it is first used."""

    make: Callable[[], ClosableExecutor]
    name_of: Callable[[ActivityCall], object] = _no_name
    prepare: dict[str, Callable[[], None]] = field(default_factory=dict)
    status: ExecutorStatus = field(default_factory=ExecutorStatus)
    _made: ClosableExecutor | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        pause = _PAUSE_SECONDS
        while True:
            try:
                executor = await self.ready(str(self.name_of(call)))
            except PenstockError as error:
                message = f"{error.message}; {error.hint}" if error.hint else error.message
                return ActivityError(message, error.code, retryable=isinstance(error, Unavailable))
            except ModuleNotFoundError as error:
                message = f"{call.activity.node_type} needs the library {error.name}; install it and restart"
                return ActivityError(message, "EXECUTOR_NOT_INSTALLED", retryable=False)
            except Exception as error:  # whatever a library raises while it is imported
                self.status.failed(call, error, is_first=pause == _PAUSE_SECONDS)
                async with call.waiting():
                    await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_SECONDS_MAX)
                await call.confirm()  # it has waited
            else:
                self.status.made(call)
                return await executor.perform(call)

    async def close(self) -> None:
        """Close the executor if it was created."""
        if self._made is not None:
            await self._made.close()

    async def ready(self, name: str) -> ClosableExecutor:
        """The executor, created and prepared for one of its entries. Raises what that raises."""
        if self._made is not None and name not in self.prepare:
            return self._made
        async with self._lock:
            if name in self.prepare:
                await asyncio.to_thread(self.prepare[name])
                del self.prepare[name]
            if self._made is None:
                self._made = await asyncio.to_thread(self.make)
            return self._made

"""Executors that are created when an activity first needs them.

Importing a library and reading a secret take time. Neither delays the start, or runs that need neither. Both happen in
a thread. If something unexpected goes wrong with that, it is tried again and again, until it succeeds or the attempt is
not wanted any more: nothing was done yet, and it says nothing about the run.

Above it: `Penstock`, `configured`. Below it: executors of any kind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.base.errors import PenstockError, Unavailable
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, AsyncPerformer

__all__ = ["ClosableExecutor", "LazyExecutor"]

_LOGGER = logging.getLogger("penstock.executors")
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 30.0


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
            except Exception:  # whatever a library raises while it is imported
                _LOGGER.exception("what performs %s cannot be made; trying again", call.activity.node_type)
                async with call.waiting():
                    await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE_SECONDS_MAX)
                await call.confirm()  # it has waited
            else:
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

"""Executors that are created when an activity first needs them.

Importing a library and reading a secret take time. Neither delays the start, or runs that need neither. Both happen in
a thread.

Above it: `Penstock`, `configured`. Below it: executors of any kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.base.errors import PenstockError, Unavailable
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, AsyncPerformer

__all__ = ["ClosableExecutor", "LazyExecutor"]


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
        try:
            executor = await self.ready(str(self.name_of(call)))
        except PenstockError as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            return ActivityError(message, error.code, retryable=isinstance(error, Unavailable))
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

"""The streams that are open in this process: how many, whose, and how to wake them all.

Above it: `context` keeps one instance, and `executions.streams` takes places in it. Below it: nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.operations.catalogue.capability import StreamEvent

__all__ = ["HeldStream", "OpenStreams"]

# The prefix of the ids of principals that are keys.
_OF_KEYS = "key:"


class OpenStreams:
    """Counts streams by principal, and wakes them."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._listening: set[Callable[[], None]] = set()
        self.reading = asyncio.Semaphore(limits.STREAM_READS_AT_ONCE)
        """Held while a stream reads records and converts them to events, so that streams that catch up take turns."""
        self._holder_sources: list[Callable[[], Iterable[str]]] = []
        self.ending = False
        """Whether the server is stopping. Every stream then ends, and its reader reconnects elsewhere or later."""

    @property
    def count(self) -> int:
        """How many streams are open."""
        return sum(self._held.values())

    def take(self, principal_id: str, *, at_most: int, of_one: int) -> None:
        """Take a place; raise `LimitExceeded` if this principal, or the server, has none left."""
        held = self._held.get(principal_id, 0)
        if held >= of_one:
            message = f"{of_one} streams are open with one key"
            raise LimitExceeded("STREAMS_LIMITED", message, "close some of them first", {"limit": of_one})
        if self.count >= at_most:
            message = f"{at_most} streams are open on this server"
            raise LimitExceeded("STREAMS_LIMITED", message, "try again later", {"retry_after_seconds": 5})
        self._held[principal_id] = held + 1

    def give_back(self, principal_id: str) -> None:
        """Release a place."""
        remaining = self._held.get(principal_id, 0) - 1
        if remaining > 0:
            self._held[principal_id] = remaining
        else:
            self._held.pop(principal_id, None)

    def add_holders(self, holders: Callable[[], Iterable[str]]) -> None:
        """Register a source of principal ids with something other than a stream open, such as a session."""
        self._holder_sources.append(holders)

    def remove_holders(self, holders: Callable[[], Iterable[str]]) -> None:
        """Remove a source of principal ids."""
        self._holder_sources.remove(holders)

    def key_ids(self) -> set[str]:
        """Return the ids of the keys that have something open."""
        holders = {*self._held, *(holder for source in self._holder_sources for holder in source())}
        return {holder.removeprefix(_OF_KEYS) for holder in holders if holder.startswith(_OF_KEYS)}

    def listen(self, wake: Callable[[], None]) -> None:
        """Register a callback for `wake`, until `leave`."""
        self._listening.add(wake)

    def leave(self, wake: Callable[[], None]) -> None:
        """Remove a callback."""
        self._listening.discard(wake)

    def end(self) -> None:
        """End every stream, including those that are opened from now on."""
        self.ending = True
        self.wake()

    def wake(self) -> None:
        """Make every stream check whether it may go on."""
        for wake in tuple(self._listening):
            wake()


class HeldStream:
    """A stream that holds a place and releases it once: at its end, when closed, or when garbage-collected."""

    def __init__(self, events: AsyncIterator[StreamEvent], streams: OpenStreams, principal_id: str) -> None:
        self._events = events
        self._leave = weakref.finalize(self, streams.give_back, principal_id)

    def __aiter__(self) -> HeldStream:
        return self

    async def __anext__(self) -> StreamEvent:
        try:
            return await anext(self._events)
        except BaseException:
            self._leave()
            raise

    async def aclose(self) -> None:
        """Release the place and close the stream, whether or not it has ended."""
        self._leave()
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()

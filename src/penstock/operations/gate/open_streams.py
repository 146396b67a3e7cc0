"""The streams that are open in this process: how many, whose, and how to wake them all.

Above it: `context` keeps one instance, and `executions.streams` takes places in it. Below it: nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeAlias, TypeVar

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.governance.principals import Principal, TokenReference
from penstock.operations.catalogue.capability import StreamEvent

__all__ = ["HeldStream", "OpenStreams", "Proof"]

Proof: TypeAlias = str | TokenReference
"""What a stream was opened with, and ends with: the id of a key, or a token."""


class OpenStreams:
    """Counts streams by principal, and wakes them."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        """By the id of a principal: how many streams it has open."""
        self._proofs: dict[Proof, int] = {}
        """By key or token: how many streams it has open."""
        self._listening: set[Callable[[], None]] = set()
        self.reading = asyncio.Semaphore(limits.STREAM_READS_AT_ONCE)
        """Held while a stream reads records and converts them to events, so that streams that catch up take turns."""
        self._holder_sources: list[Callable[[], Iterable[Principal]]] = []
        self.ending = False
        """Whether the server is stopping. Every stream then ends, and its reader reconnects elsewhere or later."""

    @property
    def count(self) -> int:
        """How many streams are open."""
        return sum(self._held.values())

    def take(self, principal: Principal, *, at_most: int, of_one: int) -> None:
        """Take a place; raise `LimitExceeded` if this principal, or the server, has none left."""
        held = self._held.get(principal.id, 0)
        if held >= of_one:
            message = f"{of_one} streams are open with one key"
            raise LimitExceeded("STREAMS_LIMITED", message, "close a stream first", {"limit": of_one})
        if self.count >= at_most:
            message = f"{at_most} streams are open on this server"
            raise LimitExceeded("STREAMS_LIMITED", message, "try again later", {"retry_after_seconds": 5})
        self._held[principal.id] = held + 1
        if principal.proof is not None:
            self._proofs[principal.proof] = self._proofs.get(principal.proof, 0) + 1

    def give_back(self, principal: Principal) -> None:
        """Release a place."""
        _count_down(self._held, principal.id)
        if principal.proof is not None:
            _count_down(self._proofs, principal.proof)

    def add_holders(self, holders: Callable[[], Iterable[Principal]]) -> None:
        """Register a source of principals with something other than a stream open, such as a session."""
        self._holder_sources.append(holders)

    def remove_holders(self, holders: Callable[[], Iterable[Principal]]) -> None:
        """Remove a source of principals."""
        self._holder_sources.remove(holders)

    def proofs(self) -> set[Proof]:
        """Return the keys and tokens that have something open."""
        holders = (holder.proof for source in self._holder_sources for holder in source())
        return {*self._proofs, *(proof for proof in holders if proof is not None)}

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


_T = TypeVar("_T")


def _count_down(counts: dict[_T, int], key: _T) -> None:
    remaining = counts.get(key, 0) - 1
    if remaining > 0:
        counts[key] = remaining
    else:
        counts.pop(key, None)


def _release(streams: OpenStreams, principal: Principal, also: Callable[[], None]) -> None:
    streams.give_back(principal)
    also()


class HeldStream:
    """A stream that holds a place and releases it once: at its end, when closed, or when garbage-collected."""

    def __init__(
        self,
        events: AsyncIterator[StreamEvent],
        streams: OpenStreams,
        principal: Principal,
        *,
        also: Callable[[], None] = lambda: None,
    ) -> None:
        """`also` is called when the place is released."""
        self._events = events
        self._leave = weakref.finalize(self, _release, streams, principal, also)

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

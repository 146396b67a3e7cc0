"""How far activities are, while they are under way: heard live in this process, kept nowhere.

    with host.progress.subscribe(run.id) as news:
        async for item in news: ...

Whoever performs an activity says so here; whoever listens to the run hears it from then on. A listener that is too slow
loses the oldest news first: they are about a moment that is over. Nothing waits for a listener, and a word that nobody
hears costs one look at a dictionary. What must not be lost belongs in a result, which is stored.

Above it: `EmbeddedHost` has one; `Run.progress` and `Run.live` listen; executors speak. Below it: nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.performing import ActivityCall

__all__ = ["Progress", "ProgressBroadcast", "ProgressNews"]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt said about itself: how far it is (`value`, from 0 to 1), or only that it is alive (no value)."""

    run_id: str
    node_id: str
    visit: int
    attempt: int
    at: int
    value: float | None = None
    message: str | None = None
    details: JsonValue = None

    def to_json(self) -> JsonObject:
        """The news as JSON, in the words of the history."""
        told: JsonObject = {
            "executionId": self.run_id,
            "nodeId": self.node_id,
            "visit": self.visit,
            "attempt": self.attempt,
            "at": self.at,
        }
        for name, value in (("value", self.value), ("message", self.message), ("details", self.details)):
            if value is not None:
                told[name] = value
        return told


@dataclass(slots=True, eq=False)
class ProgressNews:
    """What one listener has not heard yet, oldest first. `missed` counts what it was too slow for.

    `wake` is called when something arrives, for listeners who wait for other things too.
    """

    wake: Callable[[], None] | None = None
    missed: int = 0
    _waiting: deque[Progress] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, item: Progress) -> None:
        """Add news; the oldest make room."""
        if len(self._waiting) >= limits.PROGRESS_BUFFERED_MAX:
            self._waiting.popleft()
            self.missed += 1
        self._waiting.append(item)
        self._arrived.set()
        if self.wake is not None:
            self.wake()

    def take(self) -> list[Progress]:
        """Everything that has not been heard yet."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._arrived.clear()
        return taken

    async def arrived(self) -> None:
        """Wait until there is something to take."""
        await self._arrived.wait()

    def __aiter__(self) -> ProgressNews:
        return self

    async def __anext__(self) -> Progress:
        await self._arrived.wait()
        item = self._waiting.popleft()
        if not self._waiting:
            self._arrived.clear()
        return item


@dataclass(slots=True)
class ProgressBroadcast:
    """Brings what activities say to those who listen to their runs; all of it on the event loop."""

    clock: Clock
    _listeners: dict[str, list[ProgressNews]] = field(default_factory=dict)

    @contextmanager
    def subscribe(self, run_id: str, *, wake: Callable[[], None] | None = None) -> Iterator[ProgressNews]:
        """Listen to the activities of one run; its child runs are runs of their own."""
        news = ProgressNews(wake=wake)
        self._listeners.setdefault(run_id, []).append(news)
        try:
            yield news
        finally:
            listening = self._listeners[run_id]
            listening.remove(news)
            if not listening:
                del self._listeners[run_id]

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        """An attempt is alive."""
        if call.run_id in self._listeners:
            self._tell(call, details=details)

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """An attempt has come this far; what is no number says nothing."""
        if call.run_id in self._listeners and math.isfinite(value):
            self._tell(call, value=value, message=message)

    def _tell(
        self, call: ActivityCall, *, value: float | None = None, message: str | None = None, details: JsonValue = None
    ) -> None:
        item = Progress(
            run_id=call.run_id,
            node_id=call.activity.node_id,
            visit=call.activity.visit,
            attempt=call.activity.attempt,
            at=self.clock.now_ms(),
            value=value,
            message=message,
            details=details,
        )
        for news in self._listeners[call.run_id]:
            news.put(item)

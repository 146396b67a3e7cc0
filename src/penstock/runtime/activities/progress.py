"""How far activities are, while they are under way: heard live in this process, kept nowhere.

    with host.progress.subscribe(run.id) as news:
        async for item in news: ...

Whoever performs an activity says so here; whoever listens to the run hears it from then on. A listener that is too slow
loses the oldest news first: they are about a moment that is over. Nothing waits for a listener, and a word that nobody
hears costs one look at a dictionary. What must not be lost belongs in a result, which is stored.

Above it: a host has one; `Run.progress` and `Run.live` listen; executors speak. Below it: nothing.
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
from penstock.runtime.activities.performing import ActivityCall

__all__ = ["Progress", "ProgressBroadcast", "ProgressNews", "text_without", "value_without"]

_HIDDEN = "[secret]"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt said about itself: how far it is (`value`, from 0 to 1), or only that it is alive (no value).

    With a `level` it is a line of its log, which only those hear who asked for logs.
    """

    run_id: str
    node_id: str
    visit: int
    attempt: int
    at: int
    value: float | None = None
    message: str | None = None
    details: JsonValue = None
    level: int | None = None
    """How important a line of a log is, in the numbers of the standard library."""

    def to_json(self) -> JsonObject:
        """The news as JSON, in the words of the history."""
        message: JsonObject = {
            "executionId": self.run_id,
            "nodeId": self.node_id,
            "visit": self.visit,
            "attempt": self.attempt,
            "at": self.at,
        }
        for name, value in (("value", self.value), ("message", self.message), ("details", self.details)):
            if value is not None:
                message[name] = value
        return message


@dataclass(slots=True, eq=False)
class ProgressNews:
    """What one listener has not heard yet, oldest first. `missed` counts what it was too slow for.

    `wake` is called when something arrives, for listeners who wait for other things too.
    """

    wake: Callable[[], None] | None = None
    logs: bool = False
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
    _starting: int = 0
    _early: deque[Progress] = field(default_factory=lambda: deque(maxlen=limits.PROGRESS_BUFFERED_MAX))

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Keep what runs say before anybody can listen, for whoever starts a run and listens to it right afterwards."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    @contextmanager
    def subscribe(
        self, run_id: str, *, wake: Callable[[], None] | None = None, logs: bool = False
    ) -> Iterator[ProgressNews]:
        """Listen to the activities of one run, with `logs` to what they write as well; its child runs are others."""
        news = ProgressNews(wake=wake, logs=logs)
        self._listeners.setdefault(run_id, []).append(news)
        if logs and self._early:
            self._hand_over(run_id, news)
        try:
            yield news
        finally:
            listening = self._listeners[run_id]
            listening.remove(news)
            if not listening:
                del self._listeners[run_id]

    def _hand_over(self, run_id: str, news: ProgressNews) -> None:
        for item in [item for item in self._early if item.run_id == run_id]:
            self._early.remove(item)
            news.put(item)

    def heartbeat(self, call: ActivityCall, details: JsonValue) -> None:
        """An attempt is alive."""
        if call.run_id in self._listeners:
            self._tell(call, details=value_without(details, call.hidden))

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """An attempt has come this far; a value that is not a number is ignored."""
        if call.run_id in self._listeners and math.isfinite(value):
            self._tell(call, value=value, message=None if message is None else text_without(message, call.hidden))

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        """An attempt wrote a line."""
        if call.run_id in self._listeners or self._starting:
            line = text_without(message, call.hidden)[: limits.LOG_LINE_CHARACTERS_MAX]
            self._tell(call, message=line, level=level)

    def _tell(
        self,
        call: ActivityCall,
        *,
        value: float | None = None,
        message: str | None = None,
        details: JsonValue = None,
        level: int | None = None,
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
            level=level,
        )
        listeners = self._listeners.get(call.run_id)
        if listeners is None:
            self._early.append(item)
            return
        for news in listeners:
            if level is None or news.logs:
                news.put(item)


def text_without(text: str, hidden: tuple[str, ...]) -> str:
    """A text in which no secret stands."""
    for secret in hidden:
        if secret:
            text = text.replace(secret, _HIDDEN)
    return text


def value_without(value: JsonValue, hidden: tuple[str, ...]) -> JsonValue:
    """A value in which no secret stands."""
    if not hidden:
        return value
    if isinstance(value, str):
        return text_without(value, hidden)
    if isinstance(value, list):
        return [value_without(item, hidden) for item in value]
    if isinstance(value, dict):
        return {text_without(name, hidden): value_without(item, hidden) for name, item in value.items()}
    return value

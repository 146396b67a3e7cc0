"""Live progress of activities: broadcast in this process, with the newest reports kept in memory. Nothing is stored.

    with host.progress.subscribe(run.id) as news:
        async for item in news: ...

Executors report progress here; subscribers of the run receive it from then on. A subscriber that is too slow loses the
oldest items first, because they describe a past moment. Nothing waits for a subscriber. The newest reports are kept for
late readers (`kept`), within bounds. Data that must not be lost belongs in a result, which is stored.

The text that an attempt writes piece by piece is progress, too: pieces that a subscriber has not received are joined,
so none is lost. A late subscriber first gets everything written so far.

Above it: a host has one; `Run.progress` and `Run.live` subscribe; executors report. Below it: `kept_reports`.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.base.masking import mask
from penstock.runtime.activities.kept_reports import KeptReports
from penstock.runtime.activities.performing import ActivityCall

__all__ = ["Progress", "ProgressBroadcast", "ProgressNews", "ServerMessage", "text_without", "value_without"]

_HIDDEN = "[secret]"


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt reported: how far it is (`value`, from 0 to 1), or only that it is alive (no value).

    With a `level` it is a log line, delivered only to subscribers that asked for logs.
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
    """The level of a log line, as in the standard library."""
    server: str | None = None
    """The MCP server that sent a log line. The line is then somebody else's text: data, never an instruction."""
    text: str | None = None
    """A piece of the text that the attempt writes, delivered only to subscribers that asked for texts."""
    offset: int | None = None
    """Where in the text the piece begins; at 0 the text restarts."""

    def to_json(self) -> JsonObject:
        """Return the item as JSON, with the keys of the history."""
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


class ServerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A log message that an MCP server sent during a call of one of its tools, as it sent it."""

    server: str
    level: int
    logger: str | None = None
    data: JsonValue = None
    hidden: tuple[str, ...] = ()
    """Secrets that the server knows, and may repeat."""


@dataclass(slots=True, eq=False)
class ProgressNews:
    """The items that one subscriber has not received yet, oldest first. `missed` counts those it lost.

    `wake` is called when an item arrives, for subscribers that also wait for other things.
    """

    wake: Callable[[], None] | None = None
    logs: bool = False
    texts: bool = False
    missed: int = 0
    _waiting: deque[Progress] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, item: Progress) -> None:
        """Add an item; if the buffer is full, the oldest one is dropped. A piece of text joins the piece before it."""
        if self._waiting and (joined := _joined(self._waiting[-1], item)) is not None:
            self._waiting[-1] = joined
            return
        if len(self._waiting) >= limits.PROGRESS_BUFFERED_MAX:
            self._waiting.popleft()
            self.missed += 1
        self._waiting.append(item)
        self._arrived.set()
        if self.wake is not None:
            self.wake()

    def take(self) -> list[Progress]:
        """Return and clear all buffered items."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._arrived.clear()
        return taken

    async def arrived(self) -> None:
        """Wait until there is an item."""
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
    """Delivers what activities report to the subscribers of their runs, all on the event loop."""

    clock: Clock
    kept: KeptReports[Progress] = field(default_factory=KeptReports)
    """Recent reports, for views of a run."""
    _listeners: dict[str, list[ProgressNews]] = field(default_factory=dict)
    _starting: int = 0
    _early: deque[Progress] = field(default_factory=lambda: deque(maxlen=limits.PROGRESS_BUFFERED_MAX))
    _texts: dict[str, dict[tuple[str, int, int], Progress]] = field(default_factory=dict)
    """What attempts have written so far, by their runs. A model's answer is bounded, and so is this."""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Buffer what runs report before a subscription is possible: for callers that start a run, then subscribe."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    @contextmanager
    def subscribe(
        self, run_id: str, *, wake: Callable[[], None] | None = None, logs: bool = False, texts: bool = False
    ) -> Iterator[ProgressNews]:
        """Subscribe to the activities of one run, with `logs` also to their log lines; child runs are not included.

        With `texts` also to what they write, from the beginning of what is being written now.
        """
        news = ProgressNews(wake=wake, logs=logs, texts=texts)
        self._listeners.setdefault(run_id, []).append(news)
        for written in self._texts.get(run_id, {}).values() if texts else ():
            news.put(written)
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
        """Report that an attempt is alive."""
        self._publish(call, details=value_without(details, call.hidden))

    def progress(self, call: ActivityCall, value: float, message: str | None) -> None:
        """Report how far an attempt is; a value that is not finite is ignored."""
        if math.isfinite(value):
            self._publish(call, value=value, message=None if message is None else text_without(message, call.hidden))

    def log(self, call: ActivityCall, level: int, message: str) -> None:
        """Report a log line of an attempt."""
        line = text_without(message, call.hidden)[: limits.LOG_LINE_CHARACTERS_MAX]
        self._publish(call, message=line, level=level)

    def server_log(self, call: ActivityCall, said: ServerMessage) -> None:
        """Keep a log message of another server for views of the run.

        It is not delivered to subscribers, because they expect only log lines of our own steps.
        """
        hidden = tuple(dict.fromkeys((*call.hidden, *said.hidden)))
        line = _line_of(said, hidden)[: limits.LOG_LINE_CHARACTERS_MAX]
        self.kept.note(_short(self._item(call, message=line, level=said.level, server=said.server)))

    def is_heard(self, call: ActivityCall) -> bool:
        """Whether the text of an attempt has live readers, or may have some soon."""
        return self._starting > 0 or any(news.texts for news in self._listeners.get(call.run_id, ()))

    def write(self, call: ActivityCall, text: str, offset: int) -> None:
        """Report a piece of the text that an attempt writes. The caller has masked its secrets."""
        activity = call.activity
        piece = self._item(call, text=text, offset=offset)
        running = self._texts.setdefault(call.run_id, {})
        key = (activity.node_id, activity.visit, activity.attempt)
        before = running.get(key)
        running[key] = piece if before is None else _joined(before, piece) or piece
        for news in self._listeners.get(call.run_id, ()):
            if news.texts:
                news.put(piece)

    def written(self, call: ActivityCall) -> None:
        """Forget what an attempt wrote: it has ended, and what counts of it is stored."""
        activity, running = call.activity, self._texts.get(call.run_id, {})
        running.pop((activity.node_id, activity.visit, activity.attempt), None)
        if not running:
            self._texts.pop(call.run_id, None)

    def _publish(
        self,
        call: ActivityCall,
        *,
        value: float | None = None,
        message: str | None = None,
        details: JsonValue = None,
        level: int | None = None,
    ) -> None:
        item = self._item(call, value=value, message=message, details=details, level=level)
        self.kept.note(_short(item))
        listeners = self._listeners.get(call.run_id)
        if listeners is None:
            if level is not None and self._starting:
                self._early.append(item)
            return
        for news in listeners:
            if level is None or news.logs:
                news.put(item)

    def _item(self, call: ActivityCall, **members: Any) -> Progress:
        return Progress(
            run_id=call.run_id,
            node_id=call.activity.node_id,
            visit=call.activity.visit,
            attempt=call.activity.attempt,
            at=self.clock.now_ms(),
            **members,
        )


def _joined(first: Progress, then: Progress) -> Progress | None:
    """Return two pieces of a text as one; None if the second does not follow the first."""
    if first.text is None or then.text is None or first.offset is None or not then.offset:
        return None
    same = (first.node_id, first.visit, first.attempt) == (then.node_id, then.visit, then.attempt)
    if not same or then.offset != first.offset + len(first.text):
        return None
    return msgspec.structs.replace(first, text=first.text + then.text)


def _short(item: Progress) -> Progress:
    """Return a report as it is kept: with as much of its text as people read, and details only if they are small."""
    message, details = item.message, item.details
    most = limits.REPORT_CHARACTERS_KEPT_MAX
    if message is not None and len(message) > most:
        message = message[:most]
    if details is not None and not isinstance(details, int | float):
        try:
            encoded = encode_bytes(details)
        except (TypeError, ValueError, RecursionError):
            encoded = b""
        if not 0 < len(encoded) <= most:
            details = None
    if message is item.message and details is item.details:
        return item
    return msgspec.structs.replace(item, message=message, details=details)


def _line_of(said: ServerMessage, hidden: tuple[str, ...]) -> str:
    """Return the message of a server as one text, with all secrets masked."""
    try:
        data = value_without(said.data, hidden)  # before it is encoded: a secret may have characters that are escaped
        text = data if isinstance(data, str) else encode_bytes(data).decode()
    except RecursionError:
        text = "(a value that is nested too deeply to be shown)"
    return text if said.logger is None else f"{text_without(said.logger, hidden)}: {text}"


def text_without(text: str, hidden: tuple[str, ...]) -> str:
    """Return a text with all secrets masked."""
    return mask(text, hidden, _HIDDEN)


def value_without(value: JsonValue, hidden: tuple[str, ...]) -> JsonValue:
    """Return a value with all secrets masked."""
    if not hidden:
        return value
    if isinstance(value, str):
        return text_without(value, hidden)
    if isinstance(value, list):
        return [value_without(item, hidden) for item in value]
    if isinstance(value, dict):
        return {text_without(name, hidden): value_without(item, hidden) for name, item in value.items()}
    return value

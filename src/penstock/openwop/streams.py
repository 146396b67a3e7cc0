"""Events of a run on the OpenWOP wire, pushed or polled.

The operation's stream says when something happened. What happened is read from the history, one event per record, so
that a reader can resume anywhere and gets the same numbers again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.base import limits
from penstock.base.choices import refuse_choice
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.openwop.errors import wire_rejected
from penstock.openwop.events import LAST_EVENTS, STREAM_MODES, event_of, wanted_types
from penstock.openwop.exchange import Exchange
from penstock.openwop.views import ACTIVE_STATUSES, status_of
from penstock.operations.catalogue.capability import EventStream, StreamEvent
from penstock.rest.sse import close_stream

__all__ = ["open_events", "poll_events"]

_EVENT_ID = re.compile(r"(?:evt-.+-)?([0-9]{1,15})")
_POLL_SECONDS_DEFAULT = 25
_POLL_SECONDS_MAX = 60
_BUFFER_MS = re.compile(r"[0-9]{1,6}")


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads the events of one run; `seen` is the number of the last record read."""

    exchange: Exchange
    run_id: str
    types: dict[str, str]
    wanted: Callable[[str], bool]
    seen: int

    async def fresh(self) -> list[JsonObject]:
        """Read the next page of records and return their events; `seen` advances even without events."""
        arguments: JsonObject = {"execution_id": self.run_id, "after": self.seen, "limit": limits.PAGE_LIMIT_MAX}
        page = await self.exchange.call("execution.history", arguments)
        found = []
        for record in page["items"]:
            self.seen = record["seq"]
            event = event_of(self.run_id, record, self.types)
            if event is not None and self.wanted(str(event["type"])):
                found.append(event)
        return found


async def _reader(exchange: Exchange, run_id: str, view: dict[str, Any], after: int, modes: frozenset[str]) -> _Reader:
    types = {node["node_id"]: node["type"] for node in view["nodes"]}
    return _Reader(exchange=exchange, run_id=run_id, types=types, wanted=wanted_types(modes), seen=after)


def _modes(text: str | None) -> frozenset[str]:
    names = [name.strip() for name in (text or STREAM_MODES[0]).split(",")]
    unknown = [name for name in names if name not in STREAM_MODES]
    if unknown:
        supported: list[JsonValue] = list(STREAM_MODES)
        message = f"streamMode: {refuse_choice(unknown[0], STREAM_MODES)}"
        raise Rejected("STREAM_EVENTS_UNKNOWN", message, "", {"supported": supported})
    return frozenset(names)


def _position(text: str | None) -> int:
    """Return the number of the record after which to continue; events are counted from zero, records from one."""
    if not text:
        return 0
    found = _EVENT_ID.fullmatch(text)
    if found is None:
        raise wire_rejected("Last-Event-ID is not the id of an event of this run")
    return int(found[1]) + 1


async def open_events(exchange: Exchange) -> EventStream:
    """Open the stream of a run's events, until the run ends."""
    modes = _modes(exchange.query.get("streamMode"))
    # `bufferMs` is only a hint and has no effect: every event is sent when it happens.
    if not _BUFFER_MS.fullmatch(exchange.query.get("bufferMs", "0")):
        raise wire_rejected("bufferMs must be a whole number of milliseconds", {"fields": ["bufferMs"]})
    after = _position(exchange.headers.get("last-event-id"))
    run_id = exchange.named("run_id")
    view = await exchange.call("execution.status", {"execution_id": run_id})
    reader = await _reader(exchange, view["execution_id"], view, min(after, view["sequence"]), modes)
    source = await exchange.stream("execution.stream", {"execution_id": run_id, "after": reader.seen})
    return EventStream(events=_Events(source, _follow(source, reader)), retry_ms=source.retry_ms)


class _Events:
    """Events derived from another stream, which is closed with them."""

    def __init__(self, source: EventStream, events: AsyncIterator[StreamEvent]) -> None:
        self._source = source
        self._events = events

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> StreamEvent:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Close both streams."""
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()
        await close_stream(self._source)


async def _follow(source: EventStream, reader: _Reader) -> AsyncIterator[StreamEvent]:
    async for event in source.events:
        if event.event is None:
            yield event
            continue
        if event.event == "closed":
            return
        sequence = event.data.get("sequence") if isinstance(event.data, dict) else None
        while isinstance(sequence, int) and sequence > reader.seen:
            for found in await reader.fresh():
                yield StreamEvent(event=str(found["type"]), data=found, id=str(found["sequence"]))
                if found["type"] in LAST_EVENTS:
                    return


def _integer(exchange: Exchange, name: str, default: int) -> int:
    text = exchange.query.get(name)
    if text is None or text == "":
        return default
    try:
        return int(text) if len(text) < 16 else -2  # noqa: PLR2004  # a sequence number never has more digits
    except ValueError:
        raise wire_rejected(f"{name} must be a whole number", {"fields": [name]}) from None


async def poll_events(exchange: Exchange) -> JsonObject:
    """Return the events of a run after a sequence number; waits up to a limit for new ones."""
    last, seconds = _integer(exchange, "lastSequence", -1), _integer(exchange, "timeout", _POLL_SECONDS_DEFAULT)
    if last < -1 or not 0 <= seconds <= _POLL_SECONDS_MAX:
        message = f"lastSequence counts from 0, and timeout is at most {_POLL_SECONDS_MAX} seconds"
        raise wire_rejected(message, {"fields": ["lastSequence", "timeout"]})
    view = await exchange.call("execution.status", {"execution_id": exchange.named("run_id")})
    run_id: str = view["execution_id"]
    reader = await _reader(exchange, run_id, view, min(last + 1, view["sequence"]), frozenset({"debug"}))
    events = await reader.fresh()
    if not events and seconds and _is_active(view):
        await _wait_for_change(exchange, run_id, reader.seen, seconds)
        events = await reader.fresh()
    view = await exchange.call("execution.status", {"execution_id": run_id})
    return {"events": list(events), "isComplete": not _is_active(view) and reader.seen >= view["sequence"]}


def _is_active(view: dict[str, Any]) -> bool:
    return status_of(view["status"]) in ACTIVE_STATUSES


async def _wait_for_change(exchange: Exchange, run_id: str, after: int, seconds: float) -> None:
    """Wait until something has happened, or the time is up."""
    source = await exchange.stream("execution.stream", {"execution_id": run_id, "after": after})
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for event in source.events:
                    if event.event is not None:
                        return
    finally:
        await close_stream(source)

"""Server-sent events for a reader: lines become events, and a reconnect repeats nothing.

The server gives an id to the last event of each record. A reader that is disconnected in the middle of a record gets
all of its events again; `StreamPosition` remembers which of them it has seen.

Above it: the clients. Below it: nothing; no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.client.errors import CallDenied, CallFailed, CallNotFound, CallUnavailable, answer_unreadable

__all__ = ["EventParser", "StreamEvent", "StreamPosition", "with_completion"]

_RETRY_SECONDS_DEFAULT = 5.0
_RETRY_SECONDS_MAX = 30.0


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream: its type, its data, and the id after which to resume."""

    event: str
    data: dict[str, Any]
    id: str | None = None


def with_completion(events: Any) -> tuple[str | None, frozenset[str] | None]:
    """Return the event types to request, and those to pass on (None for all).

    `complete` is always requested, because it ends the stream.
    """
    if events is None:
        return None, None
    names = [name.strip() for name in (events.split(",") if isinstance(events, str) else events)]
    return ",".join(dict.fromkeys([*names, "complete"])), frozenset(names)


@dataclass(slots=True)
class EventParser:
    """Parses the bytes of one connection; an empty line completes an event."""

    retry_seconds: float = _RETRY_SECONDS_DEFAULT
    signs_of_life: int = 0
    """How many events and heartbeats were received."""
    _rest: bytes = b""
    _event: str = "message"
    _data: list[str] = field(default_factory=list)
    _id: str | None = None

    def feed(self, part: bytes) -> list[StreamEvent]:
        """Parse some bytes and return the events that they complete."""
        # Split at line feeds only: a text may contain other characters that count as line breaks elsewhere.
        *lines, self._rest = (self._rest + part).split(b"\n")
        found = (self._line(line.decode("utf-8", errors="replace").removesuffix("\r")) for line in lines)
        return [event for event in found if event is not None]

    def _line(self, line: str) -> StreamEvent | None:
        if not line:
            return self._completed()
        if line.startswith(":"):
            self.signs_of_life += 1
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdecimal():
            self.retry_seconds = min(int(value) / 1000, _RETRY_SECONDS_MAX)
        return None

    def _completed(self) -> StreamEvent | None:
        event, data, identity = self._event, self._data, self._id
        self._event, self._data, self._id = "message", [], None
        if not data:
            return None
        try:
            content: dict[str, Any] = msgspec.json.decode("\n".join(data), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise answer_unreadable("a stream", error) from None
        self.signs_of_life += 1
        return StreamEvent(event=event, data=content, id=identity)


@dataclass(slots=True)
class StreamPosition:
    """How far a reader is, over all its connections."""

    last_id: str | None = None
    ended: bool = False
    _since: list[StreamEvent] = field(default_factory=list)
    """Events since the last id, which the server repeats after a reconnect."""
    _expected: list[StreamEvent] = field(default_factory=list)

    def reconnected(self) -> None:
        """Prepare for a new connection, which begins after the last id."""
        self._expected = list(self._since)

    def take(self, event: StreamEvent) -> StreamEvent | None:
        """Return the event, unless it was returned before. `closed` raises: the stream ended before its subject did."""
        if event.event == "closed":
            raise _closed(event)
        if self._expected:
            expected = self._expected.pop(0)
            if event.event == expected.event and event.data == expected.data:
                return None
            self._expected.clear()
        if event.id is not None:
            self.last_id = event.id
            self._since.clear()
        elif event.event not in ("progress", "delta"):
            self._since.append(event)
        self.ended = event.event == "complete"
        return event


def _closed(event: StreamEvent) -> CallFailed:
    code, message = (
        str(event.data.get("code", "STREAM_CLOSED")),
        str(event.data.get("message", "the stream was closed")),
    )
    error: CallFailed
    if code.startswith("KEY_"):
        error = CallDenied(code, message, "use a key that is valid")
        error.status = 401
    elif code.endswith("_NOT_FOUND"):
        error = CallNotFound(code, message)
        error.status = 404
    else:
        error = CallUnavailable(code, message, "open the stream again")
    return error

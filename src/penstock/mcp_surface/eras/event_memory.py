"""Events of the handshake era's streams, kept for clients that lose their connection and reconnect.

Every event of a session gets a number and is kept for a while, in the memory of this process and within one limit for
all sessions. A client that reconnects names the last number it received and gets the rest. Only the stream is lost with
the process: runs are durable, and tools read their results.

The events of a session belong to it alone: a number of another session is unknown here.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse

from penstock.base import limits

__all__ = ["EventMemory", "MissedEvents", "SessionEvents", "is_response"]

# The memory that an event takes in addition to its message.
_OVERHEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    session: str
    stream: str
    message: JSONRPCMessage | None
    """None for an event that only marks a position."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """The events of a stream that a client has not received, and whether they end the stream."""

    stream: str
    events: list[EventMessage]
    ended: bool


class EventMemory:
    """The events of all sessions; the oldest are dropped when there are too many."""

    def __init__(
        self, *, events_max: int = limits.MCP_EVENTS_KEPT, bytes_max: int = limits.MCP_EVENT_BYTES_KEPT
    ) -> None:
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._number = 0
        self._events: OrderedDict[int, _Event] = OrderedDict()
        self._sessions: dict[str, dict[int, _Event]] = {}

    def add(self, session: str, stream: str, message: JSONRPCMessage | None) -> int:
        """Keep an event and return its number."""
        size = _OVERHEAD_BYTES if message is None else len(message.model_dump_json(by_alias=True)) + _OVERHEAD_BYTES
        self._number += 1
        event = _Event(self._number, session, stream, message, size)
        self._events[event.number] = event
        self._sessions.setdefault(session, {})[event.number] = event
        self._bytes += size
        while len(self._events) > self._events_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._events)))
        return event.number

    def after(self, session: str, number: str) -> MissedEvents | None:
        """Return what was sent on an event's stream after it; None if the session does not have the event."""
        known = self._sessions.get(session, {})
        last = known.get(int(number)) if number.isascii() and number.isdigit() and len(number) < _DIGITS else None
        if last is None:
            return None
        missed = [
            EventMessage(event.message, str(event.number))
            for event in known.values()
            if event.number > last.number and event.stream == last.stream and event.message is not None
        ]
        ended = is_response(last.message) or any(is_response(event.message) for event in missed)
        return MissedEvents(last.stream, missed, ended)

    def forget(self, session: str) -> None:
        """Drop the events of a session that has ended."""
        for number in tuple(self._sessions.get(session, ())):
            self._drop(number)

    def _drop(self, number: int) -> None:
        event = self._events.pop(number)
        self._bytes -= event.size_bytes
        own = self._sessions[event.session]
        del own[number]
        if not own:
            del self._sessions[event.session]


_DIGITS = 20


class SessionEvents(EventStore):
    """The events of one session, in the interface that the SDK expects."""

    def __init__(self, memory: EventMemory, session: str) -> None:
        self._memory = memory
        self._session = session

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event and return its id."""
        return str(self._memory.add(self._session, stream_id, message))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the events after an event again."""
        found = self.after(last_event_id)
        for event in found.events if found is not None else ():
            await send_callback(event)
        return found.stream if found is not None else None

    def after(self, last_event_id: str) -> MissedEvents | None:
        """Return the events after an event."""
        return self._memory.after(self._session, last_event_id)


def is_response(message: JSONRPCMessage | None) -> bool:
    """Return whether a message answers a request, and so ends the stream of that request."""
    return isinstance(message, JSONRPCResponse | JSONRPCError)

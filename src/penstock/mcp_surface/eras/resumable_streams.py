"""Event streams of the handshake era that a client can leave and come back to.

Every event of a session gets a number and is kept for a while, in the memory of this process and within a bound for all
sessions together. Whoever was cut off names the last number it got and hears the rest; the stream of a call may also be
closed on purpose, and the client comes back for the answer (from revision 2025-11-25 on). What is lost with the process
is only the stream: executions are durable, and their results are read with the tools for that.

A session's events belong to it alone: numbers of another session mean nothing.

Above it: `sdk` uses this for sessions over HTTP. Below it: the SDK's transport, whose streams are replaced: there, what
is sent between the end of a replay and the beginning of the live stream is lost.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.streamable_http import (
    CONTENT_TYPE_SSE,
    GET_STREAM_KEY,
    LAST_EVENT_ID_HEADER,
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventCallback,
    EventMessage,
    EventStore,
    SSEEvent,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.shared._context_streams import ContextSendStream
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types import (
    DEFAULT_NEGOTIATED_VERSION,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from penstock.base import limits

__all__ = ["TRANSPORT_STATE", "EventMemory", "Missed", "ResumableTransport", "SessionEvents"]

TRANSPORT_STATE = "mcp_transport"
"""Where the session of a request stands in the state of its scope."""
_LOGGER = logging.getLogger("penstock.mcp")
_HEADERS = {"Cache-Control": "no-cache, no-transform", "Connection": "keep-alive", "Content-Type": CONTENT_TYPE_SSE}
# What an event costs beside its message.
_OVERHEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    session: str
    stream: str
    message: JSONRPCMessage | None
    """None for one that only marks a place."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Missed:
    """What somebody has not heard of a stream, and whether the stream has ended with it."""

    stream: str
    events: list[EventMessage]
    ended: bool


class EventMemory:
    """The events of all sessions; the oldest make room."""

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
        """Keep an event; its number."""
        size = _OVERHEAD_BYTES if message is None else len(message.model_dump_json(by_alias=True)) + _OVERHEAD_BYTES
        self._number += 1
        event = _Event(self._number, session, stream, message, size)
        self._events[event.number] = event
        self._sessions.setdefault(session, {})[event.number] = event
        self._bytes += size
        while len(self._events) > self._events_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._events)))
        return event.number

    def after(self, session: str, number: str) -> Missed | None:
        """What was sent on the stream of an event afterwards; None if the event is not known in the session."""
        known = self._sessions.get(session, {})
        last = known.get(int(number)) if number.isascii() and number.isdigit() and len(number) < _DIGITS else None
        if last is None:
            return None
        missed = [
            EventMessage(event.message, str(event.number))
            for event in known.values()
            if event.number > last.number and event.stream == last.stream and event.message is not None
        ]
        ended = _is_answer(last.message) or any(_is_answer(event.message) for event in missed)
        return Missed(last.stream, missed, ended)

    def forget(self, session: str) -> None:
        """The session has ended."""
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
    """The events of one session, as the SDK wants to see them."""

    def __init__(self, memory: EventMemory, session: str) -> None:
        self._memory = memory
        self._session = session

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event."""
        return str(self._memory.add(self._session, stream_id, message))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send again what came after an event."""
        found = self.after(last_event_id)
        for event in found.events if found is not None else ():
            await send_callback(event)
        return found.stream if found is not None else None

    def after(self, last_event_id: str) -> Missed | None:
        """What came after an event."""
        return self._memory.after(self._session, last_event_id)


_Channel = tuple[MemoryObjectSendStream[EventMessage], MemoryObjectReceiveStream[EventMessage]]


class _LateMessages(ContextSendStream[SessionMessage | Exception]):
    """What a client says to its session. Who says goodbye does not wait until everything else was heard."""

    async def send(self, item: SessionMessage | Exception) -> None:
        """Pass it on; what nobody waits for an answer to may come after the end."""
        try:
            await super().send(item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
                raise
            _LOGGER.debug("something was said to a session that had just ended")


class ResumableTransport(StreamableHTTPServerTransport):
    """The SDK's transport of one session, whose streams can be left at any moment."""

    def __init__(self, events: SessionEvents, *, close_after_seconds: float | None, **more: Any) -> None:
        super().__init__(event_store=events, **more)
        self._events = events
        self._close_after_seconds = math.inf if close_after_seconds is None else close_after_seconds
        self.on_listen: Callable[[], None] | None = None
        """Called when the client begins to hear what answers no request."""

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        """Take a message of the client."""
        writer = self._read_stream_writer
        if writer is not None and not isinstance(writer, _LateMessages):
            self._read_stream_writer = _LateMessages(writer._inner)
        await super()._handle_post_request(scope, request, receive, send)

    async def _run_sse_writer(
        self,
        request_id: RequestId,
        sse_stream_writer: MemoryObjectSendStream[SSEEvent],
        request_stream_reader: MemoryObjectReceiveStream[EventMessage],
        priming_event: SSEEvent | None,
    ) -> None:
        """Send what answers one request; who cannot come back is not sent away."""
        patience = math.inf if priming_event is None else self._close_after_seconds
        channel = self._request_streams.get(str(request_id))
        if channel is None:  # the session has just ended
            sse_stream_writer.close()
            return
        await self._send(str(request_id), channel, sse_stream_writer, [], priming_event, patience)

    async def _send(
        self,
        stream: str,
        channel: _Channel,
        writer: MemoryObjectSendStream[SSEEvent],
        missed: list[EventMessage],
        priming: SSEEvent | None,
        patience_seconds: float,
    ) -> None:
        """Send what was missed, then what comes; until the answer was sent, or somebody else has the stream."""
        try:
            async with writer, channel[1]:
                with anyio.move_on_after(patience_seconds):
                    for event in missed:
                        await writer.send(self._create_event_data(event))
                    if priming is not None:
                        await writer.send(priming)
                    async for event in channel[1]:
                        await writer.send(self._create_event_data(event))
                        if _is_answer(event.message):
                            break
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            _LOGGER.debug("an event stream was closed")
        finally:
            self._leave(stream, channel, writer)

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the session; whoever works for it finds the session with it."""
        scope.setdefault("state", {})[TRANSPORT_STATE] = self
        await super().handle_request(scope, receive, send)

    @property
    def is_listened_to(self) -> bool:
        """Whether the client hears what answers no request."""
        return GET_STREAM_KEY in self._request_streams

    async def _handle_get_request(self, request: Request, send: Send) -> None:
        """Open the stream of what answers no request, or go on with any stream."""
        if not check_accept_headers(request)[1]:
            told = "Not Acceptable: Client must accept text/event-stream"
            await self._refuse(told, HTTPStatus.NOT_ACCEPTABLE, request, send)
        elif await self._validate_request_headers(request, send):
            last = request.headers.get(LAST_EVENT_ID_HEADER)
            if not last:
                await self._stream(Missed(GET_STREAM_KEY, [], ended=False), request, send)
            else:
                await self._replay_events(last, request, send)

    async def _replay_events(self, last_event_id: str, request: Request, send: Send) -> None:
        """Go on with a stream after an event."""
        found = self._events.after(last_event_id)
        if found is not None:
            await self._stream(found, request, send)
            return
        told = "Bad Request: nothing is known of that Last-Event-ID; open the stream without it"
        await self._refuse(told, HTTPStatus.BAD_REQUEST, request, send)

    async def _stream(self, missed: Missed, request: Request, send: Send) -> None:
        """Send what was missed and whatever comes."""
        stream, is_standalone = missed.stream, missed.stream == GET_STREAM_KEY
        if is_standalone and self.is_listened_to:
            told = "Conflict: Only one SSE stream is allowed per session"
            await self._refuse(told, HTTPStatus.CONFLICT, request, send)
            return
        # Whoever comes last has the stream. From here to its place in the table nothing may be sent in between.
        self.close_sse_stream(stream)
        channel: _Channel = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
        writer, reader = anyio.create_memory_object_stream[SSEEvent](0)
        priming: SSEEvent | None = None
        if missed.ended:
            channel[0].close()
        else:
            self._request_streams[stream], self._sse_stream_writers[stream] = channel, writer
            version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
            priming = await self._mint_priming_event(stream, version)
        patience = math.inf if priming is None or is_standalone else self._close_after_seconds

        async def sender() -> None:
            if is_standalone and self.on_listen is not None:
                self.on_listen()
            await self._send(stream, channel, writer, missed.events, priming, patience)

        headers = {**_HEADERS, MCP_SESSION_ID_HEADER: self.mcp_session_id or ""}
        response = EventSourceResponse(content=reader, data_sender_callable=sender, headers=headers)
        try:
            await response(request.scope, request.receive, send)
        finally:
            self._leave(stream, channel, writer)
            writer.close()
            reader.close()

    def _leave(self, stream: str, channel: _Channel, writer: MemoryObjectSendStream[SSEEvent]) -> None:
        channel[0].close()
        channel[1].close()
        if self._request_streams.get(stream) is channel:
            del self._request_streams[stream]
        if self._sse_stream_writers.get(stream) is writer:
            del self._sse_stream_writers[stream]

    async def _refuse(self, told: str, status: HTTPStatus, request: Request, send: Send) -> None:
        await self._create_error_response(told, status)(request.scope, request.receive, send)


def _is_answer(message: JSONRPCMessage | None) -> bool:
    return isinstance(message, JSONRPCResponse | JSONRPCError)

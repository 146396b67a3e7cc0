"""Everything that Penstock uses of the MCP SDK beyond its public interface, in one module.

The SDK has no public hook for these, and each is needed:

    ResumableTransport, SessionManager   streams that lose nothing when a client comes back, and sessions with an owner
    connection_of, notify, is_cancelled  per-connection state; notifications on the stream of one request; "cancelled"
    has_modern_envelope, without_server_requests, create_context_streams
                                         both eras over one pipe: the SDK's own loop refuses clients that try
                                         `server/discover` first and then shake hands
    set_ping_interval                    the heartbeat of event streams, which the SDK has for a whole process only

Because of this module `mcp` is pinned to one version in pyproject.toml. `test_sdk_internals.py` compares the source of
everything that is used or overridden here with what this module was written for, and fails when the SDK changes it.
`tests/tidy/test_libraries.py` refuses private names of libraries everywhere else in the surfaces.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import _streamable_http_modern
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.runner import _has_modern_envelope as has_modern_envelope
from mcp.server.runner import _NoServerRequestsDispatchContext as without_server_requests
from mcp.server.streamable_http import (
    CONTENT_TYPE_SSE,
    GET_STREAM_KEY,
    LAST_EVENT_ID_HEADER,
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventMessage,
    SSEEvent,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared._context_streams import ContextSendStream, create_context_streams
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import SessionMessage
from mcp_types import DEFAULT_NEGOTIATED_VERSION, JSONRPCRequest, RequestId
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from penstock.mcp_surface.eras.event_memory import MissedEvents, SessionEvents, is_response

__all__ = [
    "ResumableTransport",
    "SessionManager",
    "connection_of",
    "create_context_streams",
    "has_modern_envelope",
    "is_cancelled",
    "notify",
    "session_of",
    "set_ping_interval",
    "without_server_requests",
]

_TRANSPORT_STATE = "mcp_transport"
_LOGGER = logging.getLogger("penstock.mcp")
_HEADERS = {"Cache-Control": "no-cache, no-transform", "Connection": "keep-alive", "Content-Type": CONTENT_TYPE_SSE}

_Context = ServerRequestContext[Any, Any]


def connection_of(context: _Context) -> Connection:
    """Return the connection that a request came on: a session of the handshake era, or the request itself."""
    return context.session._connection


def session_of(context: _Context) -> ResumableTransport | None:
    """Return the HTTP session of a request; None over a pipe, over HTTP+SSE, and without a session."""
    request: Any = context.request
    found: ResumableTransport | None = None if request is None else request.scope["state"].get(_TRANSPORT_STATE)
    return found


def is_cancelled(context: _Context) -> bool:
    """Return whether the client sent `notifications/cancelled` for a request; disconnecting is not cancelling."""
    requested: anyio.Event | None = getattr(context.session._request_outbound, "cancel_requested", None)
    return requested is not None and requested.is_set()


async def notify(context: _Context, method: str, params: Mapping[str, Any]) -> None:
    """Send a notification on the stream that answers a request, and on no other."""
    await context.session._request_outbound.notify(method, params)


def set_ping_interval(seconds: float) -> None:
    """Set the heartbeat interval of event streams for the whole process."""
    _streamable_http_modern._SSE_PING_INTERVAL = seconds
    EventSourceResponse.DEFAULT_PING_INTERVAL = seconds  # type: ignore[assignment]


class SessionManager(StreamableHTTPSessionManager):
    """The SDK's session manager, with hooks for the beginning and the end of a session."""

    def new_transport(self, session_id: str) -> StreamableHTTPServerTransport:
        """Create the transport of a new session."""
        raise NotImplementedError

    def session_ending(self, session_id: str) -> None:
        """Called before a session ends, for any reason."""

    def session_ended(self, session_id: str) -> None:
        """Called after a session has ended."""

    def is_open(self, session_id: str) -> bool:
        """Return whether this process knows a session."""
        return session_id in self._server_instances

    def count(self) -> int:
        """Return how many sessions are open."""
        return len(self._server_instances)

    async def end_session(self, session_id: str) -> None:
        """End a session and all its streams; does nothing if the session is gone."""
        transport = self._server_instances.get(session_id)
        if transport is not None:
            await self._discard_session(session_id, transport)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        session_id = None if admitted is None else admitted.mcp_session_id
        if session_id is None:
            return None
        self._server_instances[session_id] = transport = self.new_transport(session_id)
        return transport

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        self.session_ending(session_id)
        await super()._discard_session(session_id, transport)
        self.session_ended(session_id)


_Channel = tuple[MemoryObjectSendStream[EventMessage], MemoryObjectReceiveStream[EventMessage]]


class _LateMessages(ContextSendStream[SessionMessage | Exception]):
    """A client's messages to its session. Some clients end a session before their last messages have arrived."""

    async def send(self, item: SessionMessage | Exception) -> None:
        """Pass a message on. After the end only a request may fail: nobody waits for an answer to anything else."""
        try:
            await super().send(item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
                raise
            _LOGGER.debug("a message arrived for a session that had just ended")


class ResumableTransport(StreamableHTTPServerTransport):
    """The SDK's transport of one session, with streams that a client may leave and resume at any time.

    The SDK's own streams lose what is sent between the end of a replay and the start of the live stream. The server
    also cannot close them while a call runs. So this class replaces the methods that open and write streams.
    """

    def __init__(self, events: SessionEvents, *, close_after_seconds: float | None, **more: Any) -> None:
        super().__init__(event_store=events, **more)
        self._events = events
        self._close_after_seconds = math.inf if close_after_seconds is None else close_after_seconds
        self.on_listen: Callable[[], None] | None = None
        """Called when the client opens the standalone stream, which carries messages that answer no request."""

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        """Accept a message from the client."""
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
        """Write the stream of one request; it is closed early only for a client that can resume it."""
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
        """Send the missed events, then live ones, until the response is sent or another reader takes over."""
        try:
            async with writer, channel[1]:
                with anyio.move_on_after(patience_seconds):
                    for event in missed:
                        await writer.send(self._create_event_data(event))
                    if priming is not None:
                        await writer.send(priming)
                    async for event in channel[1]:
                        await writer.send(self._create_event_data(event))
                        if is_response(event.message):
                            break
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            _LOGGER.debug("an event stream was closed")
        finally:
            self._leave(stream, channel, writer)

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of the session; its handlers find the session in the request state."""
        scope.setdefault("state", {})[_TRANSPORT_STATE] = self
        await super().handle_request(scope, receive, send)

    @property
    def is_listened_to(self) -> bool:
        """Whether the client has the standalone stream open."""
        return GET_STREAM_KEY in self._request_streams

    async def _handle_get_request(self, request: Request, send: Send) -> None:
        """Open the standalone stream, or resume any stream."""
        if not check_accept_headers(request)[1]:
            message = "Not Acceptable: Client must accept text/event-stream"
            await self._refuse(message, HTTPStatus.NOT_ACCEPTABLE, request, send)
        elif await self._validate_request_headers(request, send):
            last = request.headers.get(LAST_EVENT_ID_HEADER)
            if not last:
                await self._stream(MissedEvents(GET_STREAM_KEY, [], ended=False), request, send)
            else:
                await self._replay_events(last, request, send)

    async def _replay_events(self, last_event_id: str, request: Request, send: Send) -> None:
        """Resume a stream after an event."""
        found = self._events.after(last_event_id)
        if found is not None:
            await self._stream(found, request, send)
            return
        message = "Bad Request: nothing is known of that Last-Event-ID; open the stream without it"
        await self._refuse(message, HTTPStatus.BAD_REQUEST, request, send)

    async def _stream(self, missed: MissedEvents, request: Request, send: Send) -> None:
        """Send the missed events, then live ones."""
        stream, is_standalone = missed.stream, missed.stream == GET_STREAM_KEY
        if is_standalone and self.is_listened_to:
            message = "Conflict: Only one SSE stream is allowed per session"
            await self._refuse(message, HTTPStatus.CONFLICT, request, send)
            return
        # The newest reader takes the stream over. No message may be sent before the reader is in the table.
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

    async def _refuse(self, message: str, status: HTTPStatus, request: Request, send: Send) -> None:
        await self._create_error_response(message, status)(request.scope, request.receive, send)

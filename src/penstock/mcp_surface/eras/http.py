"""What is known of the SDK's insides, here and in `resuming`: sessions over HTTP, both eras over one pipe.

Over HTTP a client of the handshake era gets a session when it asks for one, so that it can be asked questions while it
waits. A session that this process does not know (it was restarted, or another one began it) is no reason to refuse: the
request is served without a session, because nothing that matters lives in one.

Over a pipe each request says which era it is of. Clients exist that look with `server/discover` first and then shake
hands; the SDK's own loop would refuse them.

Above it: `app` starts these. Below it: the SDK. Provisional parts of it are used: its version is pinned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import anyio
from mcp.server import _streamable_http_modern
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import (
    ServerRunner,
    _has_modern_envelope,
    _NoServerRequestsDispatchContext,
    aclose_shielded,
    modern_error_data,
    serve_one,
)
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared._context_streams import create_context_streams
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from sse_starlette import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.audit import heard
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER, CALLER_STATE
from penstock.mcp_surface.eras.http_sse import LegacySse
from penstock.mcp_surface.eras.resumable_streams import TRANSPORT_STATE, EventMemory, ResumableTransport, SessionEvents
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.wire.http_batches import HttpMessages
from penstock.mcp_surface.wire.messages import BATCHING
from penstock.mcp_surface.wire.pipe import Pipe
from penstock.mcp_surface.wire.pipe_batches import PipeMessages, unreadable
from penstock.mcp_surface.wire.versions import UNSUPPORTED, is_modern, only_message, pinned_initialize, unsupported
from penstock.operations.gate.context import Principal, Services

__all__ = [
    "ERROR_STATUSES",
    "McpServer",
    "SdkHttpBackend",
    "connection_of",
    "is_cancelled",
    "notify",
    "serve_pipe",
    "session_of",
]

ERROR_STATUSES: Mapping[int, int] = ERROR_CODE_HTTP_STATUS
"""The HTTP status of an error of the protocol by its code, in the newest era; 200 for others."""

_LOGGER = logging.getLogger("penstock.mcp")
_SESSION = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"
# Sessions that clients ended: a request that names one of them must hear so.
_ENDED_KEPT = 10_000


class _Sessions(StreamableHTTPSessionManager):
    """Sessions whose streams can be left and gone on with; each belongs to whoever began it, as long as they may."""

    def __init__(self, options: McpOptions, **more: Any) -> None:
        super().__init__(
            **more,
            retry_interval=options.retry_ms,
            session_idle_timeout=limits.MCP_SESSION_IDLE_SECONDS,
            max_sessions=limits.MCP_SESSIONS_MAX,
        )
        self._close_after_seconds = options.close_after_seconds
        self._memory = EventMemory()
        self._principals: dict[str, Principal] = {}
        self._ending: set[asyncio.Future[None]] = set()

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        admitted = super()._admit_session(requestor)
        name = None if admitted is None else admitted.mcp_session_id
        if name is None:
            return None
        transport = ResumableTransport(
            SessionEvents(self._memory, name),
            close_after_seconds=self._close_after_seconds,
            mcp_session_id=name,
            retry_interval=self.retry_interval,
            idle_timeout=self.session_idle_timeout,
        )
        self._server_instances[name] = transport
        caller = CALLER.get()
        if caller is not None:
            self._make_room(caller.principal)
            self._principals[name] = caller.principal
        return transport

    def _make_room(self, principal: Principal) -> None:
        """End the oldest sessions of somebody who has too many: nothing that matters is lost with them."""
        own = [name for name, whose in self._principals.items() if whose.id == principal.id]
        for name in own[: max(0, len(own) + 1 - limits.MCP_SESSIONS_PER_KEY)]:
            oldest = self._server_instances.get(name)
            del self._principals[name]
            if oldest is not None:
                ending = asyncio.ensure_future(self._discard_session(name, oldest))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        self._principals.pop(session_id, None)
        await super()._discard_session(session_id, transport)
        self._memory.forget(session_id)

    def owners(self) -> set[str]:
        """The ids of those who have sessions."""
        return {principal.id for principal in self._principals.values()}

    async def end_invalid(self, still_valid: Callable[[Principal], Awaitable[bool]]) -> None:
        """End the sessions of those who may not come in any more, with every stream that they have open."""
        for name, principal in list(self._principals.items()):
            transport = self._server_instances.get(name)
            if transport is not None and not await still_valid(principal):
                await self._discard_session(name, transport)


class SdkHttpBackend:
    """The SDK's Streamable HTTP, with and without sessions, for requests whose caller is known."""

    def __init__(
        self,
        server: Server[Any],
        options: McpOptions,
        services: Services,
        refused: Callable[[Caller, JsonObject], None],
    ) -> None:
        _beat_every(options.heartbeat_seconds)
        common: dict[str, Any] = {"app": server, "max_request_body_size": options.max_body_bytes}
        self._with_sessions = _Sessions(options, **common)
        self._without = StreamableHTTPSessionManager(**common, stateless=True)
        self._legacy = LegacySse(server, options, services)
        self._services = services
        self._refused = refused
        self._bytes_max = options.max_body_bytes
        self._checking: asyncio.Future[None] | None = None
        self._ended: dict[str, None] = {}
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Get ready; what is started here ends in the same task, as the SDK needs it."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(ready))
        await ready
        self._services.open_streams.listen(self._check)
        self._services.open_streams.add_holders(self._with_sessions.owners)

    def _check(self) -> None:
        """A key may have been revoked: what was opened with it ends now."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._end_invalid())

    async def _end_invalid(self) -> None:
        holds: dict[str | None, bool] = {}

        async def still_valid(principal: Principal) -> bool:
            if principal.key_id not in holds:
                holds[principal.key_id] = await self._services.still_valid(principal)
            return holds[principal.key_id]

        try:
            await self._with_sessions.end_invalid(still_valid)
            await self._legacy.end_invalid(still_valid)
        except PenstockError as error:
            _LOGGER.warning("keys cannot be looked at just now: %s", error.code)

    async def _run(self, ready: asyncio.Future[None]) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._with_sessions.run())
            await stack.enter_async_context(self._without.run())
            ready.set_result(None)
            while not self._stop.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), limits.STREAM_HEARTBEAT_SECONDS)
                # Nobody tells when a key expires, or is revoked by another process.
                self._check()

    async def stop(self) -> None:
        """End every session and every stream."""
        self._services.open_streams.leave(self._check)
        self._services.open_streams.remove_holders(self._with_sessions.owners)
        self._legacy.stop()
        self._stop.set()
        if self._running is not None:
            await self._running

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of somebody who was let in."""
        known = CALLER.set(scope["state"][CALLER_STATE])
        try:
            await self._answer_within(principal, scope, receive, send)
        finally:
            CALLER.reset(known)

    async def _answer_within(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; who takes nothing of the answer is not waited for."""
        loop, state = asyncio.get_running_loop(), scope["state"]
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as patience:

                async def bounded(message: Message) -> None:
                    heard(state, message)
                    patience.reschedule(loop.time() + limits.STREAM_SEND_SECONDS_MAX)
                    await send(message)
                    patience.reschedule(None)

                await self._answer(principal, scope, receive, bounded)

    async def _answer(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        token = AccessToken(token="", client_id=principal.id, scopes=[], subject=f"{principal.tenant}/{principal.id}")
        scope["user"] = AuthenticatedUser(token)
        # Some HTTP parsers leave blanks at the end of a value, and the SDK compares these with the body.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        version = _header(scope, _VERSION)
        if scope["method"] == "POST" and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS):
            lists = version in (None, BATCHING) and not self._legacy.serves(_path(scope), scope)
            frames = HttpMessages(
                dispatch=self._dispatched,
                bytes_max=self._bytes_max,
                takes_lists=lists,
                refused=partial(self._refused, scope["state"][CALLER_STATE]),
            )
            await frames.handle(scope, receive, send)
        else:
            await self._dispatched(scope, receive, send)

    async def _dispatched(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the transport answer that a request is for."""
        path = _path(scope)
        if self._legacy.serves(path, scope):
            await self._legacy.handle(path, scope, receive, send)
            return
        manager = self._without if self._is_without_session(scope) else self._with_sessions
        named = _header(scope, _SESSION)
        await manager.asgi_app(scope, receive, send)
        if scope["method"] == "DELETE" and named and named not in self._with_sessions._server_instances:
            self._note_end(named)

    def sessions(self) -> int:
        """How many clients have a session here."""
        return len(self._with_sessions._server_instances)

    def _is_without_session(self, scope: Scope) -> bool:
        """Whether a request of the handshake era names a session that was begun elsewhere or before."""
        version, named = _header(scope, _VERSION), _header(scope, _SESSION)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        unknown = named is not None and named not in self._with_sessions._server_instances
        return unknown and named not in self._ended and scope["method"] == "POST"

    def _note_end(self, named: str) -> None:
        self._ended[named] = None
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]


def connection_of(context: ServerRequestContext[Any, Any]) -> Connection:
    """The connection that a request came on: a session of the handshake era, or the request itself."""
    return context.session._connection


def session_of(context: ServerRequestContext[Any, Any]) -> ResumableTransport | None:
    """The session that a request came in; None over a pipe, for an old client, and without a session."""
    request: Any = context.request
    found: ResumableTransport | None = None if request is None else request.scope["state"].get(TRANSPORT_STATE)
    return found


def is_cancelled(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client said that it does not want a request any more; one that hung up did not say so."""
    said: anyio.Event | None = getattr(context.session._request_outbound, "cancel_requested", None)
    return said is not None and said.is_set()


async def notify(context: ServerRequestContext[Any, Any], method: str, params: Mapping[str, Any]) -> None:
    """Send any notification on the stream that answers a request, and on no other."""
    await context.session._request_outbound.notify(method, params)


class McpServer(Server[Any]):
    """A server whose lists may change in sessions, too: the SDK wants to be told that for each of them."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What a session is told when it begins."""
        told = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(told, experimental_capabilities, extensions)


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


def _beat_every(seconds: float) -> None:
    """How long streams may be silent; the SDK and its library have this for a whole process only."""
    _streamable_http_modern._SSE_PING_INTERVAL = seconds
    EventSourceResponse.DEFAULT_PING_INTERVAL = seconds  # type: ignore[assignment]


async def serve_pipe(server: Server[Any], pipe: Pipe, ended: Callable[[], None], only: str | None = None) -> None:
    """Serve one client over a pipe until it closes its end; `ended` hears of that first. `only` is one revision."""
    incoming_writer, incoming = create_context_streams[SessionMessage | Exception](0)
    outgoing, outgoing_reader = create_context_streams[SessionMessage](0)

    frames = PipeMessages(only)
    closed = anyio.Event()

    async def read() -> None:
        async with incoming_writer:
            async for line in pipe.lines():
                messages, told = frames.taken(line)
                for message in messages:
                    try:
                        await incoming_writer.send(SessionMessage(_read_message(message)))
                    except ValidationError:
                        told = unreadable()
                if told is not None:
                    await pipe.write(told)
            closed.set()
            ended()

    async def write() -> None:
        async with outgoing_reader:
            async for item in outgoing_reader:
                line = _written_message(item.message, frames, is_closed=closed.is_set())
                if line is not None:
                    await pipe.write(line)

    async with server.lifespan(server) as state, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        await _serve_streams(server, state, incoming, outgoing, only)


def _written_message(message: JSONRPCMessage, frames: PipeMessages, *, is_closed: bool) -> bytes | None:
    """The line for a message; None for one that waits for others, or that nobody is there to read."""
    line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return line
    if is_closed and isinstance(message, JSONRPCError) and message.error.code == CONNECTION_CLOSED:
        # Whoever closed its end has hung up: there are clients that crash on an answer after that.
        return None
    return frames.answered(message.id, line)


def _read_message(line: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


async def _serve_streams(server: Server[Any], state: Any, incoming: Any, outgoing: Any, only: str | None) -> None:
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        incoming, outgoing, inline_methods=frozenset({"initialize"})
    )
    connection = Connection.for_loop(dispatcher)
    handshake = ServerRunner(server, connection, state)
    modern = _Modern(server, dispatcher, state)

    async def on_request(
        context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        is_handshake = method == "initialize" or not _has_modern_envelope(params)
        if only is not None and is_modern(only) == is_handshake:
            named = "a handshake" if is_handshake else None
            raise MCPError(code=UNSUPPORTED, message=only_message(only), data=unsupported(only, named))
        if not is_handshake:
            return await modern.on_request(context, method, params)
        if only is not None and method == "initialize":
            params = pinned_initialize(only, params)
        return await handshake.on_request(context, method, params)

    try:
        await dispatcher.run(on_request, handshake.on_notify)
    finally:
        await aclose_shielded(connection)
        await outgoing.aclose()


class _Modern:
    """Requests that bring their own envelope; each is a connection of its own."""

    def __init__(self, server: Server[Any], dispatcher: JSONRPCDispatcher[TransportContext], state: Any) -> None:
        self._server = server
        self._outbound = NotifyOnlyOutbound(dispatcher)
        self._state = state

    async def on_request(
        self, context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Answer one request."""
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(code=route.code, message=route.message, data=route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self._outbound
        )
        try:
            return await serve_one(
                self._server,
                _NoServerRequestsDispatchContext(context),
                method,
                params,
                connection=connection,
                lifespan_state=self._state,
            )
        except (MCPError, ValidationError):
            raise
        except Exception as error:
            told = modern_error_data(error)
            raise MCPError(code=told.code, message=told.message, data=told.data) from error

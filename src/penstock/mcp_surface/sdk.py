"""What is known here of the SDK's insides, and nowhere else: sessions over HTTP, both eras over one pipe.

Over HTTP a client of the handshake era gets a session when it asks for one, so that it can be asked questions while it
waits. A session that this process does not know (it was restarted, or another one began it) is no reason to refuse: the
request is served without a session, because nothing that matters lives in one.

Over a pipe each request says which era it is of. Clients exist that look with `server/discover` first and then shake
hands; the SDK's own loop would refuse them.

Above it: `app` starts these. Below it: the SDK. Provisional parts of it are used: its version is pinned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.lowlevel.server import Server
from mcp.server.runner import (
    ServerRunner,
    _has_modern_envelope,
    _NoServerRequestsDispatchContext,
    aclose_shielded,
    modern_error_data,
    serve_one,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared._context_streams import create_context_streams
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import jsonrpc_message_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from penstock.base import limits
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.pipe import Pipe
from penstock.operations.context import Principal

__all__ = ["ERROR_STATUSES", "HttpEngine", "serve_pipe"]

ERROR_STATUSES: Mapping[int, int] = ERROR_CODE_HTTP_STATUS
"""The HTTP status of an error of the protocol by its code, in the newest era; 200 for others."""

_SESSION = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"
# Sessions that clients ended: a request that names one of them must hear so.
_ENDED_KEPT = 10_000


class HttpEngine:
    """The SDK's Streamable HTTP, with and without sessions, for requests whose caller is known."""

    def __init__(self, server: Server[Any], options: McpOptions) -> None:
        common: dict[str, Any] = {"app": server, "max_request_body_size": options.max_body_bytes}
        self._with_sessions = StreamableHTTPSessionManager(
            **common,
            session_idle_timeout=limits.MCP_SESSION_IDLE_SECONDS,
            max_sessions=limits.MCP_SESSIONS_MAX,
        )
        self._without = StreamableHTTPSessionManager(**common, stateless=True)
        self._ended: dict[str, None] = {}
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Get ready; what is started here ends in the same task, as the SDK needs it."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(ready))
        await ready

    async def _run(self, ready: asyncio.Future[None]) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._with_sessions.run())
            await stack.enter_async_context(self._without.run())
            ready.set_result(None)
            await self._stop.wait()

    async def stop(self) -> None:
        """End every session and every stream."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of somebody who was let in."""
        token = AccessToken(token="", client_id=principal.id, scopes=[], subject=f"{principal.tenant}/{principal.id}")
        scope["user"] = AuthenticatedUser(token)
        # Some HTTP parsers leave blanks at the end of a value, and the SDK compares these with the body.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        manager = self._without if self._is_without_session(scope) else self._with_sessions
        named = _header(scope, _SESSION)
        await manager.asgi_app(scope, receive, send)
        if scope["method"] == "DELETE" and named and named not in self._with_sessions._server_instances:
            self._note_end(named)

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


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


async def serve_pipe(server: Server[Any], pipe: Pipe, ended: Callable[[], None]) -> None:
    """Serve one client over a pipe until it closes its end; `ended` hears of that first."""
    incoming_writer, incoming = create_context_streams[SessionMessage | Exception](0)
    outgoing, outgoing_reader = create_context_streams[SessionMessage](0)

    async def read() -> None:
        async with incoming_writer:
            async for line in pipe.lines():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    await incoming_writer.send(error)
                else:
                    await incoming_writer.send(SessionMessage(message))
            ended()

    async def write() -> None:
        async with outgoing_reader:
            async for item in outgoing_reader:
                await pipe.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async with server.lifespan(server) as state, anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        await _serve_streams(server, state, incoming, outgoing)


async def _serve_streams(server: Server[Any], state: Any, incoming: Any, outgoing: Any) -> None:
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        incoming, outgoing, inline_methods=frozenset({"initialize"})
    )
    connection = Connection.for_loop(dispatcher)
    handshake = ServerRunner(server, connection, state)
    modern = _Modern(server, dispatcher, state)

    async def on_request(
        context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if method != "initialize" and _has_modern_envelope(params):
            return await modern.on_request(context, method, params)
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

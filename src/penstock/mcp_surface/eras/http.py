"""MCP over HTTP with the SDK: sessions of the handshake era, requests of the newest one, and old clients.

A client of the handshake era gets a session when it asks for one, so that it can be asked questions while it waits. A
request that names a session unknown to this process (after a restart, or from another process) is not refused: it is
served without a session, because a session holds nothing durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from penstock.asgi import Headers, State, header
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.audit import note_error_code
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER, CALLER_STATE
from penstock.mcp_surface.eras.event_memory import EventMemory, SessionEvents
from penstock.mcp_surface.eras.http_sse import LegacySse
from penstock.mcp_surface.eras.sdk_internals import ResumableTransport, SessionManager, set_ping_interval
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.rates import with_status
from penstock.mcp_surface.wire.http_batches import HttpMessages
from penstock.mcp_surface.wire.messages import BATCHING
from penstock.operations.gate.context import Principal, Services

__all__ = ["ERROR_STATUSES", "SdkHttpBackend"]

ERROR_STATUSES: Mapping[int, int] = ERROR_CODE_HTTP_STATUS
"""The HTTP status of a protocol error by its code, in the newest era; 200 for others."""

_LOGGER = logging.getLogger("penstock.mcp")
_SESSION = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"
# Sessions that clients ended: a request that names one of them is refused.
_ENDED_KEPT = 10_000


class _Sessions(SessionManager):
    """Sessions with resumable streams; each belongs to the principal that opened it, while their key is valid."""

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

    def new_transport(self, session_id: str) -> ResumableTransport:
        """Create the transport of a new session; if the principal has too many sessions, the oldest end."""
        caller = CALLER.get()
        if caller is not None:
            self._make_room(caller.principal)
            self._principals[session_id] = caller.principal
        return ResumableTransport(
            SessionEvents(self._memory, session_id),
            close_after_seconds=self._close_after_seconds,
            mcp_session_id=session_id,
            retry_interval=self.retry_interval,
            idle_timeout=self.session_idle_timeout,
        )

    def _make_room(self, principal: Principal) -> None:
        """End the oldest sessions of a principal that has too many: nothing durable is lost with them."""
        own = [name for name, owner in self._principals.items() if owner.id == principal.id]
        for name in own[: max(0, len(own) + 1 - limits.MCP_SESSIONS_PER_KEY)]:
            del self._principals[name]
            ending = asyncio.ensure_future(self.end_session(name))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def session_ending(self, session_id: str) -> None:
        """Stop counting the session for its owner."""
        self._principals.pop(session_id, None)

    def session_ended(self, session_id: str) -> None:
        """Drop the events of the session."""
        self._memory.forget(session_id)

    def owners(self) -> list[Principal]:
        """Return the principals that have sessions."""
        return list(self._principals.values())

    def seen(self, session_id: str, principal: Principal) -> None:
        """Note the token that the owner of a session uses now: clients get a new one before theirs expires."""
        known = self._principals.get(session_id)
        if known is not None and known is not principal and known.id == principal.id:
            self._principals[session_id] = principal

    async def end_invalid(self, still_valid: Callable[[Principal], Awaitable[bool]]) -> None:
        """End the sessions, and all their streams, of principals whose key is no longer valid."""
        for name, principal in list(self._principals.items()):
            if self.is_open(name) and not await still_valid(principal):
                await self.end_session(name)


class SdkHttpBackend:
    """The SDK's Streamable HTTP, with and without sessions, for requests whose caller is known."""

    def __init__(
        self,
        server: Server[Any],
        options: McpOptions,
        services: Services,
        refused: Callable[[Caller, JsonObject], None],
        limited: Callable[[Caller, State, Any], tuple[JsonObject, Headers] | None],
    ) -> None:
        set_ping_interval(options.heartbeat_seconds)
        common: dict[str, Any] = {"app": server, "max_request_body_size": options.max_body_bytes}
        self._with_sessions = _Sessions(options, **common)
        self._without = StreamableHTTPSessionManager(**common, stateless=True)
        self._legacy = LegacySse(server, options, services)
        self._services = services
        self._refused = refused
        self._limited = limited
        self._bytes_max = options.max_body_bytes
        self._checking: asyncio.Future[None] | None = None
        self._ended: dict[str, None] = {}
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the SDK's managers in a task of their own: they must be stopped by the task that started them."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(ready))
        await ready
        self._services.open_streams.listen(self._check)
        self._services.open_streams.add_holders(self._with_sessions.owners)

    def _check(self) -> None:
        """Check all keys now, because one may have been revoked, and end what was opened with an invalid one."""
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._end_invalid())

    async def _end_invalid(self) -> None:
        is_valid: dict[Hashable, bool] = {}

        async def still_valid(principal: Principal) -> bool:
            if principal.proof not in is_valid:
                is_valid[principal.proof] = await self._services.still_valid(principal)
            return is_valid[principal.proof]

        try:
            await self._with_sessions.end_invalid(still_valid)
            await self._legacy.end_invalid(still_valid)
        except PenstockError as error:
            _LOGGER.warning("cannot check keys at the moment: %s", error.code)

    async def _run(self, ready: asyncio.Future[None]) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._with_sessions.run())
            await stack.enter_async_context(self._without.run())
            ready.set_result(None)
            while not self._stop.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), limits.STREAM_HEARTBEAT_SECONDS)
                # There is no event when a key expires or another process revokes it, so check at intervals.
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
        """Answer one request whose caller is authenticated."""
        known = CALLER.set(scope["state"][CALLER_STATE])
        try:
            await self._answer_within(principal, scope, receive, send)
        finally:
            CALLER.reset(known)

    async def _answer_within(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, but give up on a client that does not read the response, or leaves before its request is complete."""
        loop, state = asyncio.get_running_loop(), scope["state"]
        with suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(None) as patience:

                async def bounded(message: Message) -> None:
                    note_error_code(state, message)
                    patience.reschedule(loop.time() + limits.STREAM_SEND_SECONDS_MAX)
                    await send(with_status(state, message))
                    patience.reschedule(None)

                await self._answer(principal, scope, receive, bounded)

    async def _answer(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        token = AccessToken(token="", client_id=principal.id, scopes=[], subject=f"{principal.tenant}/{principal.id}")
        scope["user"] = AuthenticatedUser(token)
        # Some HTTP parsers leave blanks at the end of a value, and the SDK compares values with the body.
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]
        version = header(scope, _VERSION)
        if scope["method"] == "POST" and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS):
            is_old = self._legacy.serves(_path(scope), scope)
            frames = HttpMessages(
                dispatch=self._dispatch,
                bytes_max=self._bytes_max,
                takes_lists=version in (None, BATCHING) and not is_old,
                takes_envelopes=is_old,
                refused=partial(self._refused, scope["state"][CALLER_STATE]),
                limited=partial(self._limited, scope["state"][CALLER_STATE], scope["state"]),
            )
            await frames.handle(scope, receive, send)
        else:
            await self._dispatch(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to its transport."""
        path = _path(scope)
        if self._legacy.serves(path, scope):
            await self._legacy.handle(path, scope, receive, send)
            return
        manager = self._without if self._is_without_session(scope) else self._with_sessions
        named = header(scope, _SESSION)
        if named is not None:
            self._with_sessions.seen(named, scope["state"][CALLER_STATE].principal)
        await manager.asgi_app(scope, receive, send)
        if scope["method"] == "DELETE" and named and not self._with_sessions.is_open(named):
            self._note_end(named)

    def sessions(self) -> int:
        """Return how many clients have a session here."""
        return self._with_sessions.count()

    def _is_without_session(self, scope: Scope) -> bool:
        """Return whether a request of the handshake era names a session that this process does not know."""
        version, named = header(scope, _VERSION), header(scope, _SESSION)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        unknown = named is not None and not self._with_sessions.is_open(named)
        return unknown and named not in self._ended and scope["method"] == "POST"

    def _note_end(self, named: str) -> None:
        self._ended[named] = None
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))

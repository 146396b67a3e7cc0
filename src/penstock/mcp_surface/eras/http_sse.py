"""HTTP+SSE, the transport of revision 2024-11-05, for clients that know nothing newer.

A client opens a stream with GET, and the stream tells it where to post its messages; the answers come on the stream. As
for other transports, the endpoint has authenticated the client. A stream belongs to the key that opened it, and ends
when that key is revoked or the server stops.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_loop
from mcp.server.sse import SseServerTransport
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from penstock.base.errors import LimitExceeded
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER_STATE
from penstock.mcp_surface.options import MESSAGES_PATH, SSE_PATH, McpOptions
from penstock.operations.gate.context import Principal, Services

__all__ = ["LegacySse"]

# Headers that a client of a newer revision sends when it opens a stream.
_NEWER = (b"mcp-session-id", b"mcp-protocol-version")
_STREAM = b"text/event-stream"
_SESSION = re.compile(rb"session_id=[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    principal: Principal
    scope: anyio.CancelScope


class LegacySse:
    """The streams of clients of revision 2024-11-05."""

    def __init__(self, server: Server[Any], options: McpOptions, services: Services) -> None:
        self._server = server
        self._services = services
        self._stream_path = options.path + SSE_PATH
        self._message_path = options.path + MESSAGES_PATH
        self._is_first = options.sse_first
        self._transport = SseServerTransport(self._message_path, max_request_body_size=options.max_body_bytes)
        self._streams: set[_Stream] = set()

    def serves(self, path: str, scope: Scope) -> bool:
        """Return whether a request comes from an old client: by its path, or because it has no header of a newer one.

        Some clients open a stream at the address they are given before they try anything else. A newer client opens one
        only in a session, and names it.
        """
        if path in (self._stream_path, self._message_path):
            return True
        if scope["method"] != "GET" or any(name in _NEWER for name, _ in scope["headers"]):
            return False
        return self._is_first or any(name == b"accept" and _STREAM in value for name, value in scope["headers"])

    async def handle(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if path == self._message_path:
            await self._transport.handle_post_message(scope, receive, send)
        elif scope["method"] == "GET":
            await self._open(scope, receive, send)
        else:
            # Clients try the newer transport at this address first, and fall back to GET when they receive 405.
            await Response(status_code=405, headers={"Allow": "GET"})(scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller = scope["state"][CALLER_STATE]
        streams, chosen, owner = self._services.open_streams, self._services.limits, caller.principal
        try:
            streams.take(owner, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
        except LimitExceeded as error:
            await Response(error.message, status_code=429)(scope, receive, send)
            return
        stream = _Stream(caller.principal, anyio.CancelScope())
        self._streams.add(stream)
        try:
            with stream.scope:
                async with self._transport.connect_sse(scope, receive, _with_toolset(caller.toolset, send)) as (
                    incoming,
                    outgoing,
                ):
                    await serve_loop(self._server, incoming, outgoing, lifespan_state=None)
        finally:
            self._streams.discard(stream)
            streams.give_back(owner)

    async def end_invalid(self, still_valid: Callable[[Principal], Awaitable[bool]]) -> None:
        """End the streams of principals whose key is no longer valid."""
        for stream in tuple(self._streams):
            if not await still_valid(stream.principal):
                stream.scope.cancel()

    def stop(self) -> None:
        """End every stream."""
        for stream in self._streams:
            stream.scope.cancel()


def _with_toolset(toolset: str | None, send: Send) -> Send:
    """Add the toolset of the stream's address to the address at which the client posts."""
    if toolset is None:
        return send
    chosen = f"&toolset={quote(toolset)}".encode()
    text = False

    async def tell(message: Message) -> None:
        nonlocal text
        if not text and message.get("body"):
            text = True
            message = {**message, "body": _SESSION.sub(lambda found: found[0] + chosen, message["body"])}
        await send(message)

    return tell

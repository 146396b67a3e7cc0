"""Both eras of MCP over one pipe, for a client that started this process.

Each request says which era it belongs to. Some clients try `server/discover` first and then perform the handshake; the
SDK's own loop would refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.lowlevel.server import Server
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data, serve_one
from mcp.shared.dispatcher import DispatchContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from penstock.mcp_surface.eras.sdk_internals import (
    create_context_streams,
    has_modern_envelope,
    without_server_requests,
)
from penstock.mcp_surface.rates import COUNTED
from penstock.mcp_surface.wire.codes import UNSUPPORTED_VERSION
from penstock.mcp_surface.wire.pipe import Pipe, PipeHandover
from penstock.mcp_surface.wire.pipe_batches import PipeMessages, unreadable
from penstock.mcp_surface.wire.versions import is_modern, only_message, pinned_initialize, unsupported

__all__ = ["serve_pipe"]


async def serve_pipe(
    server: Server[Any],
    pipe: Pipe,
    ended: Callable[[], None],
    only: str | None = None,
    handover: PipeHandover | None = None,
) -> None:
    """Serve one client until it closes its end of the pipe.

    `ended` is called as soon as it does, before the calls in flight end, so that these do not count as cancelled.
    `only` is the only revision of the protocol that the operator allows; None for all of them. `handover` has the
    messages that were answered before; the server reads them, and what it answers is dropped.
    """
    incoming_writer, incoming = create_context_streams[SessionMessage | Exception](0)
    outgoing, outgoing_reader = create_context_streams[SessionMessage](0)
    messages = _Messages(pipe, PipeMessages(only), handover)
    async with server.lifespan(server) as state, anyio.create_task_group() as tasks:
        tasks.start_soon(messages.read_all, incoming_writer, ended)
        tasks.start_soon(messages.write_all, outgoing_reader)
        await _serve_streams(server, state, incoming, outgoing, only)


class _Messages:
    """The messages of one pipe, in both directions."""

    def __init__(self, pipe: Pipe, frames: PipeMessages, handover: PipeHandover | None) -> None:
        self._pipe = pipe
        self._frames = frames
        self._handover = handover
        self._answered_ids: set[str | int] = set()
        """The requests that were answered before, and that the server has not answered yet."""
        self._closed = False

    async def read_all(self, server: Any, ended: Callable[[], None]) -> None:
        """Hand messages to the server until the client closes its end."""
        async with server:
            if self._handover is not None:
                await self._read_again(server, self._handover.handshake)
            async for line in self._pipe.lines() if self._handover is None else self._handover.lines:
                await self._read_line(server, line)
            self._closed = True
            ended()

    async def _read_again(self, server: Any, lines: Sequence[bytes]) -> None:
        counted = COUNTED.set(True)
        for line in lines:
            self._frames.taken(line)
            message = _read_message(line)
            if isinstance(message, JSONRPCRequest):
                self._answered_ids.add(message.id)
            await server.send(SessionMessage(message))
        COUNTED.reset(counted)

    async def _read_line(self, server: Any, line: bytes) -> None:
        messages, text = self._frames.taken(line)
        for message in messages:
            try:
                await server.send(SessionMessage(_read_message(message)))
            except ValidationError:
                text = unreadable()
        if text is not None:
            await self._pipe.write(text)

    async def write_all(self, server: Any) -> None:
        """Write what the server sends, but no second answer to a request."""
        async with server:
            async for item in server:
                if self._handover is not None and _takes_id(item.message, self._answered_ids):
                    await self._handover.settled()
                    continue
                line = _written_message(item.message, self._frames, is_closed=self._closed)
                if line is not None:
                    await self._pipe.write(line)


def _takes_id(message: JSONRPCMessage, ids: set[str | int]) -> bool:
    """Return whether a message answers one of these requests, and take its id out."""
    if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id not in ids:
        return False
    ids.remove(message.id)
    return True


def _written_message(message: JSONRPCMessage, frames: PipeMessages, *, is_closed: bool) -> bytes | None:
    """Return the line for a message; None if it waits for other lines of its batch, or if nobody reads it."""
    line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    if not isinstance(message, JSONRPCResponse | JSONRPCError):
        return line
    if is_closed and isinstance(message, JSONRPCError) and message.error.code == CONNECTION_CLOSED:
        # The client closed its end: some clients crash on an answer after that.
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
    modern = _ModernRequests(server, dispatcher, state)

    async def on_request(
        context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        is_handshake = method == "initialize" or not has_modern_envelope(params)
        if only is not None and is_modern(only) == is_handshake:
            named = "a handshake" if is_handshake else None
            raise MCPError(code=UNSUPPORTED_VERSION, message=only_message(only), data=unsupported(only, named))
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


class _ModernRequests:
    """Requests of the newest era: each carries its own envelope and is a connection of its own."""

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
                without_server_requests(context),
                method,
                params,
                connection=connection,
                lifespan_state=self._state,
            )
        except (MCPError, ValidationError):
            raise
        except Exception as error:
            data = modern_error_data(error)
            raise MCPError(code=data.code, message=data.message, data=data.data) from error

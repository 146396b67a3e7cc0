"""HTTP bodies of the handshake era, before the SDK reads them: invalid messages are refused as JSON-RPC requires.

In revision 2025-03-26 a body may be a batch, a list of messages. Each message is handled as if it came alone, and the
answers come on one event stream, in the order in which they are ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from penstock.asgi import Headers, read_messages, replayed, send_body
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.mcp_surface.wire.codes import HEADER_MISMATCH, INVALID_REQUEST
from penstock.mcp_surface.wire.messages import (
    BATCHING,
    brings_envelope,
    decoded,
    error_message,
    is_request,
    refusal_of,
)

__all__ = ["Handle", "HttpMessages"]

_VERSION = b"mcp-protocol-version"
_JSON = (b"content-type", b"application/json")
_STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
_ACCEPTED, _WRONG, _OK, _TOO_MANY = 202, 400, 200, 429

Handle = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpMessages:
    """Splits bodies into messages and dispatches each of them."""

    dispatch: Handle
    bytes_max: int
    takes_lists: bool
    takes_envelopes: bool
    """Whether a message may say that it is of the newest era without a header that says so.

    HTTP+SSE has no such header. If a client probes for the newest era there, the server answers on its stream that the
    method does not exist, and the client falls back; it does not read the answer to its POST.
    """
    refused: Callable[[JsonObject], None]
    """Called for refused messages in a batch; for other messages the HTTP status shows the refusal."""
    limited: Callable[[Any], tuple[JsonObject, Headers] | None]
    """Returns the error, and its headers, for a message that comes too soon: before its event stream begins."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request of the handshake era whose body is a message or a batch; refuse any other."""
        received, body = await read_messages(receive, self.bytes_max)
        if received[-1]["type"] == "http.disconnect":
            raise ClientDisconnect  # the SDK would take it for an error of its own, and answer nobody with 500
        is_json, value = decoded(body) if body is not None else (False, None)
        if not is_json:
            # Too large, or not JSON: the SDK answers with the error.
            await self.dispatch(scope, replayed(received, receive), send)
            return
        if isinstance(value, list) and value and self.takes_lists:
            await _Batch(self, scope, receive, send).answer(value)
            return
        refused = self._refusal(value, has_version=any(name == _VERSION for name, _ in scope["headers"]))
        if refused is not None:
            await _send_json(send, refused)
            return
        too_soon = self.limited(value)
        if too_soon is not None:
            await _send_json(send, too_soon[0], _TOO_MANY, too_soon[1])
            return
        await self.dispatch(scope, replayed(received, receive), send)

    def _refusal(self, value: Any, *, has_version: bool) -> JsonObject | None:
        if isinstance(value, list):
            why = f"only revision {BATCHING} has lists of messages" if value else "the list is empty"
            return error_message(None, INVALID_REQUEST, f"Invalid Request: {why}")
        refused = refusal_of(value)
        if refused is None and brings_envelope(value) and not self.takes_envelopes:
            message = "does not match the request's envelope" if has_version else "is missing"
            return error_message(value.get("id"), HEADER_MISMATCH, f"The header MCP-Protocol-Version {message}")
        return refused


async def _send_json(send: Send, answer: JsonObject, status: int = _WRONG, more: Headers | None = None) -> None:
    body = encode_bytes(answer)
    headers = [_JSON, (b"content-length", b"%d" % len(body)), *(more or [])]
    await send_body(send, status, headers, body)


class _Batch:
    """A batch of messages, and the stream on which they are answered."""

    def __init__(self, frames: HttpMessages, scope: Scope, receive: Receive, send: Send) -> None:
        self._handle = frames.dispatch
        self._refused = frames.refused
        self._scope = scope
        self._receive = receive
        self._send = send
        self._begun = False
        self._turn = asyncio.Lock()
        self._left = asyncio.Event()

    async def answer(self, messages: list[Any]) -> None:
        """Handle every message, and end when all of them are answered."""
        if len(messages) > limits.MCP_BATCH_MESSAGES_MAX:
            text = f"Invalid Request: a list has at most {limits.MCP_BATCH_MESSAGES_MAX} messages"
            await _send_json(self._send, error_message(None, INVALID_REQUEST, text))
            return
        leaving = asyncio.ensure_future(self._watch())
        try:
            async with asyncio.TaskGroup() as group:
                for message in messages:
                    group.create_task(self._handle_message(message))
        finally:
            leaving.cancel()
            await asyncio.wait({leaving})
        if self._begun:
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await send_body(self._send, _ACCEPTED, [])

    async def _watch(self) -> None:
        while not self._left.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                self._left.set()

    async def _handle_message(self, message: Any) -> None:
        refused = refusal_of(message)
        if refused is None and message.get("method") == "initialize":
            text = "Invalid Request: `initialize` must be sent alone"
            refused = error_message(message.get("id"), INVALID_REQUEST, text)
        if refused is not None:
            self._refused(refused)
            await self._event(refused)
            return
        body = encode_bytes(message)
        kept = [(name, value) for name, value in self._scope["headers"] if name != b"content-length"]
        headers = [*kept, (b"content-length", b"%d" % len(body))]
        alone = {**self._scope, "headers": headers, "state": dict(self._scope["state"])}
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await self._left.wait()
            return {"type": "http.disconnect"}

        part = _Part(self._frame)
        await self._handle(alone, receive, part.send)
        if is_request(message) or part.is_error:
            await part.rest()

    async def _event(self, answer: JsonObject) -> None:
        await self._frame(b"event: message\r\ndata: " + encode_bytes(answer) + b"\r\n\r\n")

    async def _frame(self, frame: bytes) -> None:
        """Send a complete frame; frames of other messages may come before and after it."""
        async with self._turn:
            if not self._begun:
                self._begun = True
                await self._send({"type": "http.response.start", "status": _OK, "headers": _STREAM})
            await self._send({"type": "http.response.body", "body": frame, "more_body": True})


class _Part:
    """The answer to one message: events are passed on as they come, a JSON document becomes an event."""

    def __init__(self, frame: Callable[[bytes], Awaitable[None]]) -> None:
        self._frame = frame
        self._is_stream = False
        self._document = b""
        self.is_error = False

    async def send(self, message: Message) -> None:
        """Receive a part of the answer."""
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message["headers"] if name == b"content-type"]
            self._is_stream = any(kind.startswith(b"text/event-stream") for kind in kinds)
            self.is_error = message["status"] >= _WRONG
        elif self._is_stream:
            if message.get("body"):
                await self._frame(message["body"])
        else:
            self._document += message.get("body", b"")

    async def rest(self) -> None:
        """Send the JSON document as an event, if the answer was not a stream."""
        if self._document:
            await self._frame(b"event: message\r\ndata: " + self._document + b"\r\n\r\n")

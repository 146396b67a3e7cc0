"""Which kind of answer a client of the OpenWOP mount wants, and MCP answers for clients that accept only JSON."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.asgi import header, read_messages, replayed

__all__ = ["Spoken", "as_json_only", "spoken_to"]

Spoken: TypeAlias = Literal["plain", "strict", "strict_json"]

_STREAM = "text/event-stream"
_BOTH = b"application/json, text/event-stream"
_LISTEN = "subscriptions/listen"
# Revisions with a handshake; on this mount clients may skip the handshake and still name the revision.
_HANDSHAKE_ERA = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class _Named(msgspec.Struct):
    method: str = ""


async def spoken_to(scope: Scope, receive: Receive) -> tuple[Spoken, Receive]:
    """Classify a request as plain or strict; the returned `receive` repeats what was read."""
    version, takes_streams = header(scope, b"mcp-protocol-version"), _STREAM in (header(scope, b"accept") or "")
    if scope["method"] != "POST":
        # It opens a stream or ends a session; anything else is a mistake, which the plain side reports.
        wanted = takes_streams or header(scope, b"mcp-session-id") is not None
        return ("strict" if wanted else "plain"), receive
    if version is not None and version not in _HANDSHAKE_ERA:
        # A client that only listens needs a stream and gets an error; as JSON the answer would never be complete.
        listens = header(scope, b"mcp-method") == _LISTEN
        return ("strict" if takes_streams or listens else "strict_json"), receive
    if not takes_streams:
        return "plain", receive
    if version is not None or header(scope, b"mcp-session-id") is not None:
        return "strict", receive
    received, body = await read_messages(receive)
    return ("strict" if _shakes_hands(body) else "plain"), replayed(received, receive)


def _shakes_hands(body: bytes | None) -> bool:
    try:
        return body is not None and msgspec.json.decode(body, type=_Named).method == "initialize"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


async def as_json_only(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a client that accepts only JSON with an application that may answer with an event stream.

    Messages on the stream before the final response are dropped, because the client does not accept them.
    """
    scope["headers"] = [*((name, value) for name, value in scope["headers"] if name != b"accept"), (b"accept", _BOTH)]
    answer = _JsonCollector(send)
    await app(scope, receive, answer.send)


class _JsonCollector:
    """Passes responses on; an event stream is collected and becomes the JSON of its last response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._begun = b""
        self._answer = b"{}"

    async def send(self, message: Message) -> None:
        """Receive a message from the application."""
        if message["type"] == "http.response.start":
            named = dict(message.get("headers", []))
            if not named.get(b"content-type", b"").startswith(_STREAM.encode()):
                await self._send(message)
                return
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            ended = not message.get("more_body", False)
            self._collect(message.get("body", b"") + (b"\n\n" if ended else b""))
            if ended:
                await self._finish(self._start)

    def _collect(self, part: bytes) -> None:
        """Keep the last response among the complete events, and the beginning of the next event."""
        *events, self._begun = (self._begun + part).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
            data = b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)
            if _is_answer(data):
                self._answer = data

    async def _finish(self, start: Message) -> None:
        body = self._answer
        dropped = (b"content-type", b"content-length", b"cache-control", b"connection")
        headers = [(name, value) for name, value in start.get("headers", []) if name not in dropped]
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_answer(data: bytes) -> bool:
    """Return whether a message answers a request."""
    try:
        message = msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(message, dict) and "id" in message and ("result" in message or "error" in message)

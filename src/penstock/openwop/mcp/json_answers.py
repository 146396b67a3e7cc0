"""How a client of the OpenWOP mount wants to be answered, and answers of MCP for clients that take JSON only."""

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
# Clients of these shook hands first; on this mount they may leave it out, and name the version all the same.
_HANDSHAKE_ERA = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class _Named(msgspec.Struct):
    method: str = ""


async def spoken_to(scope: Scope, receive: Receive) -> tuple[Spoken, Receive]:
    """Whether a request is a plain one; what was read of it is received again."""
    version, takes_streams = header(scope, b"mcp-protocol-version"), _STREAM in (header(scope, b"accept") or "")
    if scope["method"] != "POST":
        # Looking for a stream, or ending a session; without either it is a mistake, which the plain side tells.
        wanted = takes_streams or header(scope, b"mcp-session-id") is not None
        return ("strict" if wanted else "plain"), receive
    if version is not None and version not in _HANDSHAKE_ERA:
        # Who only listens wants a stream, and is told so; there would be no end to wait for.
        listens = header(scope, b"mcp-method") == _LISTEN
        return ("strict" if takes_streams or listens else "strict_json"), receive
    if not takes_streams:
        return "plain", receive
    if version is not None or header(scope, b"mcp-session-id") is not None:
        return "strict", receive
    came, body = await read_messages(receive)
    return ("strict" if _shakes_hands(body) else "plain"), replayed(came, receive)


def _shakes_hands(body: bytes | None) -> bool:
    try:
        return body is not None and msgspec.json.decode(body, type=_Named).method == "initialize"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


async def as_json_only(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that takes JSON only with an application that may answer with an event stream.

    What such a stream says before its answer is left out: the client said that it does not take it.
    """
    scope["headers"] = [*((name, value) for name, value in scope["headers"] if name != b"accept"), (b"accept", _BOTH)]
    answer = _Gathered(send)
    await app(scope, receive, answer.send)


class _Gathered:
    """Passes answers on; an event stream only when it has ended, as the JSON of its last answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._begun = b""
        self._answer = b"{}"

    async def send(self, message: Message) -> None:
        """Hear a message of the application."""
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
            self._hear(message.get("body", b"") + (b"\n\n" if ended else b""))
            if ended:
                await self._finish(self._start)

    def _hear(self, part: bytes) -> None:
        """Keep the last answer of the events that are complete, and the beginning of the next one."""
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
    """Whether a message answers a request."""
    try:
        message = msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(message, dict) and "id" in message and ("result" in message or "error" in message)

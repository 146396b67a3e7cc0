"""Responses of the fast path, with the bytes that the SDK would send: members in its order, text in ASCII.

Only numbers with an exponent may be written differently (1e20 for 1e+20). This module does not import the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.types import Message, Send

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.fast_path.requests import RequestId
from penstock.mcp_surface.wire.messages import error_message

__all__ = [
    "ResponseRecorder",
    "answer_bytes",
    "call_bytes",
    "error_bytes",
    "result_bytes",
    "send_json",
    "shown_bytes",
]

_encode = encode_bytes
# Above this size, joining the parts costs more than sending them separately.
_JOINED_BYTES_MAX = 16_384


class ResponseRecorder:
    """Passes a response on and keeps it, if it is not too large."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._parts: list[bytes] = []
        self._size = 0
        self._fits = False

    async def send(self, message: Message) -> None:
        """Pass on a message of the response."""
        if message["type"] == "http.response.start":
            self._fits = message["status"] == 200 and (b"content-type", b"application/json") in message["headers"]  # noqa: PLR2004
        elif self._fits:
            part: bytes = message.get("body", b"")
            self._size += len(part)
            self._parts.append(part)
            self._fits = self._size <= limits.MCP_FAST_PAGE_BYTES_MAX
        await self._send(message)

    def rest(self, prefix: bytes) -> bytes | None:
        """Return everything after the prefix, if the response was a result."""
        whole = b"".join(self._parts) if self._fits else b""
        return whole[len(prefix) :] if whole.startswith(prefix) else None


def ascii_bytes(value: Any) -> bytes:
    """Encode a value as JSON in ASCII, as the SDK does."""
    encoded = _encode(value)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def result_bytes(result: JsonObject, meta: bytes) -> bytes:
    """Return the rest of a response: our result, and the metadata that the SDK adds to every result."""
    return ascii_bytes(result)[:-1] + b',"_meta":' + meta + b"}}"


def call_bytes(result: JsonObject, meta: bytes) -> bytes:
    """Return the rest of a response to a tool call, whose members and blocks the SDK sorts by name."""
    content = result["content"]
    blocks: list[JsonValue] = [
        dict(sorted(block.items())) if isinstance(block, dict) else block
        for block in (content if isinstance(content, list) else [])
    ]
    ordered = dict(sorted({**result, "content": blocks}.items()))
    own = ordered.pop("_meta", None)
    if own is None:
        return result_bytes(ordered, meta)
    # The metadata of the result comes before what the SDK adds, and both come before everything else.
    return b'{"_meta":' + ascii_bytes(own)[:-1] + b"," + meta[1:] + b"," + ascii_bytes(ordered)[1:] + b"}"


def shown_bytes(value: Any, characters_max: int) -> bytes | None:
    """Encode an operation's answer, without metadata and closing braces; None if it is not an object, or too large."""
    encoded = _encode(value)
    if len(encoded) > characters_max or not encoded.startswith(b"{") or not encoded.isascii() or b"\x7f" in encoded:
        return None
    return b"".join(
        (
            b'{"content":[{"text":',
            _encode(encoded.decode("ascii")),
            b',"type":"text"}],"isError":false,"resultType":"complete","structuredContent":',
            encoded,
        )
    )


def answer_bytes(shown: bytes, meta: bytes, own: bytes | None) -> bytes:
    """Return the rest of a response from `shown_bytes`; `own` is the metadata of the result itself."""
    if own is None:
        return shown + b',"_meta":' + meta + b"}}"
    return b'{"_meta":' + own[:-1] + b"," + meta[1:] + b"," + shown[1:] + b"}}"


def error_bytes(request_id: RequestId, code: int, message: str, data: JsonValue) -> bytes:
    """Encode a response with a protocol error."""
    return ascii_bytes(error_message(request_id, code, message, data))


async def send_json(
    send: Send, status: int, beginning: bytes, rest: bytes = b"", *, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a JSON document that consists of two parts."""
    size = len(beginning) + len(rest)
    own = [(b"content-length", b"%d" % size), (b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    if size > _JOINED_BYTES_MAX:
        await send({"type": "http.response.body", "body": beginning, "more_body": True})
        await send({"type": "http.response.body", "body": rest})
    else:
        await send({"type": "http.response.body", "body": beginning + rest})

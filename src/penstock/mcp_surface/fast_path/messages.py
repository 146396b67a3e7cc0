"""The wire of the fast path: which requests may be answered without the SDK, and the bytes of their answers.

A request is hot if it is one of a few methods of the newest era, says so in its headers exactly once, and has nothing
in its body but what such a request must have. Everything else is not understood here, which is not an error: the SDK
answers it. Answers have the bytes that the SDK would send: members in its order, text in ASCII. Only numbers with an
exponent may be spelt otherwise (1e20 for 1e+20).

Above it: `fast_path.path`. Below it: msgspec. Nothing here knows the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.types import Message, Scope, Send

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "FastHeaders",
    "FastRequest",
    "ResponseRecorder",
    "answer_bytes",
    "call_bytes",
    "error_bytes",
    "fast_headers",
    "parse_request",
    "result_bytes",
    "send_json",
    "shown_bytes",
]

_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
_ENVELOPE = frozenset(f"{_META}{name}" for name in ("protocolVersion", "clientCapabilities", "clientInfo"))
_METHODS: dict[bytes, str] = {
    name.encode(): name for name in ("server/discover", "tools/list", "tools/call", "tasks/get")
}
# A request with one of these, or with a parameter in a header, is for the SDK to judge.
_UNUSUAL = frozenset({b"mcp-session-id", b"content-encoding", b"last-event-id"})
_PARAMETER = b"mcp-param-"
_VERSION_HEADER = _VERSION.encode()
# Names of headers, and kinds of content, that were looked at before; a head is bounded, and so is what is kept.
_HEADERS_KEPT = 64
# Beyond this many bytes it costs more to join what is sent than to send it in two parts.
_JOINED_BYTES_MAX = 16_384

RequestId: TypeAlias = int | str


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    meta: msgspec.Raw = msgspec.field(name="_meta")


class _CallParams(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    meta: msgspec.Raw = msgspec.field(name="_meta")
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class _TaskParams(msgspec.Struct, forbid_unknown_fields=True):
    task_id: str = msgspec.field(name="taskId")
    meta: msgspec.Raw = msgspec.field(name="_meta")


class _Plain(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: RequestId
    method: str
    params: _Params


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: RequestId
    method: str
    params: _CallParams


class _Task(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: RequestId
    method: str
    params: _TaskParams


_plain = msgspec.json.Decoder(_Plain)
_call = msgspec.json.Decoder(_Call)
_task = msgspec.json.Decoder(_Task)
_encode = msgspec.json.encode


class FastHeaders(msgspec.Struct, frozen=True):
    """What the headers of a hot request say."""

    method: str
    name: str | None


class FastRequest(msgspec.Struct, frozen=True):
    """A hot request."""

    method: str
    id: RequestId
    meta: bytes
    """The envelope as it was sent."""
    name: str = ""
    """The tool or the task that it is about."""
    arguments: JsonObject | None = None

    @property
    def prefix(self) -> bytes:
        """What stands before the result in its answer."""
        if isinstance(self.id, int):
            return b'{"jsonrpc":"2.0","id":%d,"result":' % self.id
        return f'{{"jsonrpc":"2.0","id":{json.dumps(self.id)},"result":'.encode()

    def has_plain_envelope(self) -> bool:
        """Whether the envelope says who asks and what they can do, and nothing else."""
        try:
            said = msgspec.json.decode(self.meta)
        except RecursionError:
            return False
        return isinstance(said, dict) and said.keys() <= _ENVELOPE and said.get(f"{_META}protocolVersion") == _VERSION


def fast_headers(scope: Scope, headers: Mapping[bytes, bytes]) -> FastHeaders | None:
    """What the headers say, which are given by name too; None if they are not exactly those of a hot request."""
    method = _METHODS.get(headers.get(b"mcp-method", b""))
    if method is None or headers.get(b"mcp-protocol-version") != _VERSION_HEADER or scope["method"] != "POST":
        return None
    if len(headers) != len(scope["headers"]) or not _are_usual(tuple(headers)):
        return None
    if headers.get(b"content-type") != b"application/json" or not _takes_both(headers.get(b"accept", b"")):
        return None
    named = headers.get(b"mcp-name")
    if named is None:
        return FastHeaders(method, None)
    # Names with other letters come wrapped, and unwrapping them is the SDK's.
    return FastHeaders(method, named.decode()) if named.isascii() and not named.startswith(b"=?") else None


# Programs send the same headers, and in the same order, with all of their requests.
@lru_cache(_HEADERS_KEPT)
def _are_usual(names: tuple[bytes, ...]) -> bool:
    return _UNUSUAL.isdisjoint(names) and not any(_PARAMETER in name for name in names)


@lru_cache(_HEADERS_KEPT)
def _takes_both(accept: bytes) -> bool:
    return b"application/json" in accept and b"text/event-stream" in accept and b";" not in accept


def parse_request(said: FastHeaders, body: bytes) -> FastRequest | None:
    """The request; None if its body has anything unusual, or does not fit its headers."""
    try:
        found = _decoded(said, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found is not None and len(found.meta) <= limits.MCP_FAST_ENVELOPE_BYTES_MAX else None


def _decoded(said: FastHeaders, body: bytes) -> FastRequest | None:
    if said.method == "tools/call":
        call = _call.decode(body)
        if (call.method, call.params.name) != (said.method, said.name):
            return None
        return FastRequest(said.method, call.id, bytes(call.params.meta), call.params.name, call.params.arguments)
    if said.method == "tasks/get":
        task = _task.decode(body)
        if (task.method, task.params.task_id) != (said.method, said.name):
            return None
        return FastRequest(said.method, task.id, bytes(task.params.meta), task.params.task_id)
    plain = _plain.decode(body)
    if plain.method != said.method or said.name is not None:
        return None
    return FastRequest(said.method, plain.id, bytes(plain.params.meta))


class ResponseRecorder:
    """Passes an answer on and remembers it, if it is not too large."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._parts: list[bytes] = []
        self._size = 0
        self._fits = False

    async def send(self, message: Message) -> None:
        """Pass on what is sent."""
        if message["type"] == "http.response.start":
            self._fits = message["status"] == 200 and (b"content-type", b"application/json") in message["headers"]  # noqa: PLR2004
        elif self._fits:
            part: bytes = message.get("body", b"")
            self._size += len(part)
            self._parts.append(part)
            self._fits = self._size <= limits.MCP_FAST_PAGE_BYTES_MAX
        await self._send(message)

    def rest(self, prefix: bytes) -> bytes | None:
        """Everything after the prefix, of an answer that was a result."""
        whole = b"".join(self._parts) if self._fits else b""
        return whole[len(prefix) :] if whole.startswith(prefix) else None


def ascii_bytes(value: Any) -> bytes:
    """A value as JSON in ASCII, as the SDK writes it."""
    encoded = _encode(value)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def result_bytes(result: JsonObject, meta: bytes) -> bytes:
    """The rest of an answer with a result of ours, and what the SDK adds to every result."""
    return ascii_bytes(result)[:-1] + b',"_meta":' + meta + b"}}"


def call_bytes(result: JsonObject, meta: bytes) -> bytes:
    """The same for the result of a tool, whose members and blocks the SDK orders by name."""
    content = result["content"]
    blocks: list[JsonValue] = [
        dict(sorted(block.items())) if isinstance(block, dict) else block
        for block in (content if isinstance(content, list) else [])
    ]
    ordered = dict(sorted({**result, "content": blocks}.items()))
    own = ordered.pop("_meta", None)
    if own is None:
        return result_bytes(ordered, meta)
    # What the result says of itself stands before what is added, and both before everything else.
    return b'{"_meta":' + ascii_bytes(own)[:-1] + b"," + meta[1:] + b"," + ascii_bytes(ordered)[1:] + b"}"


def shown_bytes(value: Any, characters_max: int) -> bytes | None:
    """What an operation answered, but for the metadata and the last brace; None if it is no object, or too large."""
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
    """The rest of an answer with what `shown_bytes` gave; `own` is what the result says of itself."""
    if own is None:
        return shown + b',"_meta":' + meta + b"}}"
    return b'{"_meta":' + own[:-1] + b"," + meta[1:] + b"," + shown[1:] + b"}}"


def error_bytes(request_id: RequestId, code: int, message: str, data: JsonValue) -> bytes:
    """An answer with an error of the protocol."""
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return ascii_bytes({"jsonrpc": "2.0", "id": request_id, "error": error})


async def send_json(send: Send, status: int, beginning: bytes, rest: bytes = b"") -> None:
    """Answer with a JSON document."""
    size = len(beginning) + len(rest)
    headers = [(b"content-length", b"%d" % size), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if size > _JOINED_BYTES_MAX:
        await send({"type": "http.response.body", "body": beginning, "more_body": True})
        await send({"type": "http.response.body", "body": rest})
    else:
        await send({"type": "http.response.body", "body": beginning + rest})

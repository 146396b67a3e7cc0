"""Which requests may be answered without the SDK, and what they contain.

Such a request has one of a few methods of the newest era, names it in its headers exactly once, and has nothing in its
body but what is required. Any other request is not an error: it is left to the SDK. This module does not import the
SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from starlette.types import Scope

from penstock.base import limits
from penstock.base.json import JsonObject

__all__ = ["FastHeaders", "FastRequest", "RequestId", "fast_headers", "parse_request"]

_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
_ENVELOPE = frozenset(f"{_META}{name}" for name in ("protocolVersion", "clientCapabilities", "clientInfo"))
_METHODS: dict[bytes, str] = {
    name.encode(): name for name in ("server/discover", "tools/list", "tools/call", "tasks/get")
}
# A request with one of these headers, or with a parameter in a header, is left to the SDK.
_UNUSUAL = frozenset({b"mcp-session-id", b"content-encoding", b"last-event-id"})
_PARAMETER = b"mcp-param-"
_VERSION_HEADER = _VERSION.encode()
# Cache of header names and content types that were checked; a request head is limited, and so is the cache.
_HEADERS_KEPT = 64

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


class FastHeaders(msgspec.Struct, frozen=True):
    """The method and name in the headers of a request for the fast path."""

    method: str
    name: str | None


class FastRequest(msgspec.Struct, frozen=True):
    """A request that the fast path can answer."""

    method: str
    id: RequestId
    meta: bytes
    """The envelope as it was sent."""
    name: str = ""
    """The tool or the task that the request names."""
    arguments: JsonObject | None = None

    @property
    def prefix(self) -> bytes:
        """The beginning of its answer, up to the result."""
        if isinstance(self.id, int):
            return b'{"jsonrpc":"2.0","id":%d,"result":' % self.id
        return f'{{"jsonrpc":"2.0","id":{json.dumps(self.id)},"result":'.encode()

    def has_plain_envelope(self) -> bool:
        """Return whether the envelope has nothing but the version, the client and its capabilities."""
        try:
            envelope = msgspec.json.decode(self.meta)
        except RecursionError:
            return False
        return (
            isinstance(envelope, dict)
            and envelope.keys() <= _ENVELOPE
            and envelope.get(f"{_META}protocolVersion") == _VERSION
        )


def fast_headers(scope: Scope, headers: Mapping[bytes, bytes]) -> FastHeaders | None:
    """Parse the headers; None if they are not exactly those of a request for the fast path.

    `headers` are those of the scope by name.
    """
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
    # Names that are not ASCII come encoded, and decoding them is left to the SDK.
    return FastHeaders(method, named.decode()) if named.isascii() and not named.startswith(b"=?") else None


# Clients send the same headers, in the same order, with all of their requests.
@lru_cache(_HEADERS_KEPT)
def _are_usual(names: tuple[bytes, ...]) -> bool:
    return _UNUSUAL.isdisjoint(names) and not any(_PARAMETER in name for name in names)


@lru_cache(_HEADERS_KEPT)
def _takes_both(accept: bytes) -> bool:
    return b"application/json" in accept and b"text/event-stream" in accept and b";" not in accept


def parse_request(headers: FastHeaders, body: bytes) -> FastRequest | None:
    """Parse the request; None if its body has anything unusual, or does not match its headers."""
    try:
        found = _decoded(headers, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found is not None and len(found.meta) <= limits.MCP_FAST_ENVELOPE_BYTES_MAX else None


def _decoded(headers: FastHeaders, body: bytes) -> FastRequest | None:
    if headers.method == "tools/call":
        call = _call.decode(body)
        if (call.method, call.params.name) != (headers.method, headers.name):
            return None
        return FastRequest(headers.method, call.id, bytes(call.params.meta), call.params.name, call.params.arguments)
    if headers.method == "tasks/get":
        task = _task.decode(body)
        if (task.method, task.params.task_id) != (headers.method, headers.name):
            return None
        return FastRequest(headers.method, task.id, bytes(task.params.meta), task.params.task_id)
    plain = _plain.decode(body)
    if plain.method != headers.method or headers.name is not None:
        return None
    return FastRequest(headers.method, plain.id, bytes(plain.params.meta))

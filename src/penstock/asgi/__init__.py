"""Plain ASGI helpers that the HTTP surfaces share: request state, reading a request, sending a response.

`forms` reads what a browser sent, and `refusals` says how a page for people refuses. Read `forms` first.

The middleware of `rest` wraps every surface. It reads from the request state what the surface wrote there; the keys in
this module are the contract between the two.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeAlias

from starlette.types import Message, Receive, Scope, Send

from penstock.base import limits
from penstock.base.traces import trace_id_of

__all__ = [
    "AUDITED",
    "CODE",
    "MCP_METHOD",
    "MCP_TOOL",
    "READS",
    "Headers",
    "HttpOrigin",
    "State",
    "client_left",
    "header",
    "read_messages",
    "remote_of",
    "replayed",
    "request_id_of",
    "send_body",
]

State: TypeAlias = MutableMapping[str, Any]
Headers: TypeAlias = list[tuple[bytes, bytes]]

AUDITED = "audited"
"""Request state key: the refusal is already in the audit log, so that the middleware does not record it again."""
CODE = "code"
"""Request state key: the reason code of the refusal."""
MCP_METHOD, MCP_TOOL = "mcp_method", "tool"
"""Request state keys: the method of an MCP request, and the tool that it calls, for the access log."""
READS = "reads"
"""Request state key: the request only read something. For surfaces where every request is a POST."""


def request_id_of(scope: Scope) -> str:
    """Return the id that the middleware assigned to the request."""
    found: str = scope.get("state", {}).get("request_id", "")
    return found


def remote_of(scope: Scope) -> str | None:
    """Return the address that the request came from."""
    client = scope.get("client")
    return client[0] if client else None


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first value of a header, stripped of white space."""
    for key, value in scope["headers"]:
        if key == name:
            found: str = value.decode("latin-1").strip()
            return found
    return None


class HttpOrigin:
    """Where a request comes from, beyond its address: read from the headers when an audit record needs it."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def client(self) -> str | None:
        """The program that calls, as its user agent says."""
        return header(self._scope, b"user-agent")

    @property
    def trace_id(self) -> str | None:
        """The trace that the caller sent."""
        return trace_id_of(self.traceparent)

    @property
    def traceparent(self) -> str | None:
        """The caller's span as it was sent."""
        return header(self._scope, b"traceparent")


async def read_messages(
    receive: Receive, bytes_max: int = limits.MCP_FAST_BODY_BYTES_MAX
) -> tuple[list[Message], bytes | None]:
    """Return the messages received, and the body if it is complete and within the limit; see `replayed`."""
    message = await receive()
    received, size = [message], 0
    while True:
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or size > bytes_max:
            return received, None
        if not message.get("more_body", False):
            return received, message.get("body", b"") if len(received) == 1 else b"".join(
                item.get("body", b"") for item in received
            )
        message = await receive()
        received.append(message)


def replayed(received: list[Message], receive: Receive) -> Receive:
    """Return a `receive` that yields the given messages again and then continues with the real one."""
    waiting = received[::-1]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


async def client_left(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_body(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

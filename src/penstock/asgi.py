"""What the surfaces over HTTP share, in plain ASGI: the state of a request, reading it, and sending an answer.

The middleware of `rest` is around every surface. It reads from the state of a request what the surface that answered it
has written there: these keys are the agreement between them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, TypeAlias

from starlette.types import Message, Receive, Scope, Send

from penstock.base import limits

__all__ = [
    "AUDITED",
    "CODE",
    "READS",
    "Headers",
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
"""In the state of a request: the audit log has its refusal, and nobody else needs to record it."""
CODE = "code"
"""Why it was refused."""
READS = "reads"
"""It only read; for surfaces whose every request is a POST."""


def request_id_of(scope: Scope) -> str:
    """The id that the middleware gave the request."""
    found: str = scope.get("state", {}).get("request_id", "")
    return found


def remote_of(scope: Scope) -> str | None:
    """The address that a request came from."""
    client = scope.get("client")
    return client[0] if client else None


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of a header, without blanks around it."""
    return next((value.decode("latin-1").strip() for key, value in scope["headers"] if key == name), None)


async def read_messages(
    receive: Receive, bytes_max: int = limits.MCP_FAST_BODY_BYTES_MAX
) -> tuple[list[Message], bytes | None]:
    """What arrived, and the body if it is whole and not larger than allowed; the messages can be `replayed`."""
    message = await receive()
    came, size = [message], 0
    while True:
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or size > bytes_max:
            return came, None
        if not message.get("more_body", False):
            return came, message.get("body", b"") if len(came) == 1 else b"".join(
                item.get("body", b"") for item in came
            )
        message = await receive()
        came.append(message)


def replayed(came: list[Message], receive: Receive) -> Receive:
    """A `receive` that gives again what came, and then whatever comes."""
    waiting = came[::-1]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


async def client_left(receive: Receive) -> None:
    """Return when the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_body(send: Send, status: int, headers: Headers, body: bytes = b"") -> None:
    """Send a whole response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

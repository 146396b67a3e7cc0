"""Reading a small request body ahead of whoever answers the request, who then receives it again.

This module does not know the SDK.
"""

from __future__ import annotations

from starlette.types import Message, Receive

from penstock.base import limits

__all__ = ["read_body", "replayed"]


async def read_body(receive: Receive) -> tuple[list[Message], bytes | None]:
    """What came, and the body if it is whole and small; the messages can be `replayed`."""
    message = await receive()
    came: list[Message] = [message]
    body: bytes = message.get("body", b"")
    if (
        message["type"] == "http.request"
        and not message.get("more_body", False)
        and len(body) <= limits.MCP_FAST_BODY_BYTES_MAX
    ):
        return came, body
    return await _rest_of_body(came, receive)


async def _rest_of_body(came: list[Message], receive: Receive) -> tuple[list[Message], bytes | None]:
    size, message = 0, came[0]
    while True:
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or size > limits.MCP_FAST_BODY_BYTES_MAX:
            return came, None
        if not message.get("more_body", False):
            return came, b"".join(item.get("body", b"") for item in came)
        message = await receive()
        came.append(message)


def replayed(came: list[Message], receive: Receive) -> Receive:
    """A way to receive that gives again what came, and then whatever comes."""
    waiting = came[::-1]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again

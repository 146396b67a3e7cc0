"""The stream of a browser: which runs moved, as server-sent events.

It is the operation `execution.changes`, opened for the signed-in principal. Heartbeats are events too, because a script
cannot see comments and the page warns when they stop.

Above it: `surface`. Below it: the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from starlette.types import Receive, Send

from penstock.asgi import client_left, send_body
from penstock.asgi.refusals import page_status
from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.errors import Denied, LimitExceeded, PenstockError, Unavailable
from penstock.operations.catalogue.capability import EventStream, StreamEvent

__all__ = ["SIGNED_OUT", "Standing", "refused_stream", "send_changes", "until_left"]

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
Standing: TypeAlias = Literal["open", "outdated", "signed out"]
"""The status of a stream's session; `outdated` if its rights have changed since the stream was opened."""
SIGNED_OUT = Denied("SIGNED_OUT", "you are signed out")
_encode = SafeEncoder().encode


async def send_changes(
    stream: EventStream, receive: Receive, send: Send, look: Callable[[], Awaitable[Standing]]
) -> None:
    """Send a stream until it ends, its reader leaves or takes nothing, or the session that opened it has ended.

    An outdated stream just ends. Its reader reconnects, with the current rights.
    """
    await until_left(_send_all(stream, send, look), receive)


async def until_left(sending: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Send something until it is sent, its reader leaves or takes nothing."""
    sent = asyncio.ensure_future(sending)
    leaving = asyncio.ensure_future(client_left(receive))
    try:
        await asyncio.wait({sent, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (leaving, sent):
            task.cancel()
            # A reader that is too slow is cut off; it connects again where it was.
            with suppress(asyncio.CancelledError, TimeoutError):
                await task


async def _send_all(stream: EventStream, send: Send, look: Callable[[], Awaitable[Standing]]) -> None:
    try:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        async for event in stream.events:
            standing = await look()
            if standing == "signed out":
                await send({"type": "http.response.body", "body": _frame(_closed(SIGNED_OUT)), "more_body": True})
            if standing != "open":
                break
            async with asyncio.timeout(limits.STREAM_SEND_SECONDS_MAX):
                await send({"type": "http.response.body", "body": _frame(event), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        close = getattr(stream.events, "aclose", None)
        if close is not None:
            await close()


async def refused_stream(send: Send, error: PenstockError) -> None:
    """Send a stream that only contains the refusal. With another status, a page would retry forever.

    If the reason is temporary, the page should retry: the server is busy, or the visitor reached a rate limit.
    """
    if isinstance(error, Unavailable | LimitExceeded):
        told = _encode(_closed(error).data)
        await send_body(send, page_status(error), [(b"content-type", b"application/json")], told)
        return
    await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
    await send({"type": "http.response.body", "body": _frame(_closed(error))})


def _closed(error: PenstockError) -> StreamEvent:
    return StreamEvent(event="closed", data={"code": error.code, "message": error.message})


def _frame(event: StreamEvent) -> bytes:
    if event.event is None:
        return b"event: beat\ndata: 1\n\n"
    at = b"" if event.id is None else f"id: {event.id}\n".encode()
    return at + b"event: " + event.event.encode() + b"\ndata: " + _encode(event.data) + b"\n\n"

"""Server-sent events: frames, heartbeats, and ending a stream whose reader has disconnected or cannot keep up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Receive, Send

from penstock.asgi import client_left
from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.operations.catalogue.capability import EventStream, StreamEvent
from penstock.operations.telemetry.metrics import Telemetry

__all__ = ["STREAM_HEADERS", "close_stream", "frame", "send_events"]

_encode = SafeEncoder().encode
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_HEARTBEAT = b": ping\n\n"

Frame = Callable[[StreamEvent], bytes]


def frame(event: StreamEvent) -> bytes:
    """Encode an event for the wire."""
    if event.event is None:
        return _HEARTBEAT
    head = f"id: {event.id}\n" if event.id is not None else ""
    # JSON has no line breaks of its own, so one data line is enough.
    return f"{head}event: {event.event}\ndata: ".encode() + _encode(event.data) + b"\n\n"


async def close_stream(stream: EventStream) -> None:
    """Close a stream before it has ended."""
    close = getattr(stream.events, "aclose", None)
    if close is not None:
        await close()


async def send_events(
    stream: EventStream, receive: Receive, send: Send, telemetry: Telemetry, kind: str = "execution"
) -> None:
    """Send a stream until it ends or its reader disconnects; `kind` is its label in the metrics."""
    began = time.perf_counter()
    sending = asyncio.ensure_future(_send_all(stream, send, telemetry, kind))
    leaving = asyncio.ensure_future(client_left(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await leaving
        try:
            await sending
        except asyncio.CancelledError:
            pass
        except TimeoutError:
            # The stream of a reader that is too slow just ends; the reader resumes with Last-Event-ID.
            telemetry.stream_errors.add((kind,))
        except Exception:
            telemetry.stream_errors.add((kind,))
            raise
        finally:
            telemetry.stream_seconds.add(time.perf_counter() - began, (kind,))


async def _send_all(stream: EventStream, send: Send, telemetry: Telemetry, kind: str) -> None:
    began, events, is_first = time.perf_counter(), stream.events, True
    counted = telemetry.stream_events
    try:
        await send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
        await _part(send, f"retry: {stream.retry_ms}\n\n".encode())
        async for event in events:
            await _part(send, frame(event))
            if event.event is None:
                continue
            counted.add((kind,))
            if is_first:
                is_first = False
                telemetry.stream_first_seconds.add(time.perf_counter() - began, (kind,))
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await close_stream(stream)


async def _part(send: Send, part: bytes) -> None:
    """Send a part. The server waits for the socket of a slow reader, so this limits the wait."""
    async with asyncio.timeout(limits.STREAM_SEND_SECONDS_MAX):
        await send({"type": "http.response.body", "body": part, "more_body": True})

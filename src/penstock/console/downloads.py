"""Sends files of any length as they are made: a piece at a time, as fast as the browser takes them.

Above it: `surface`. Below it: `events`.
"""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Send

from penstock.base import limits
from penstock.console.events import until_left
from penstock.console.visits import Download

__all__ = ["send_download"]

Headers = list[tuple[bytes, bytes]]


async def send_download(shown: Download, method: str, receive: Receive, send: Send, headers: Headers) -> None:
    """Send a file. A browser that leaves, or takes nothing for long, ends it."""
    named = (b"content-disposition", f'attachment; filename="{shown.file_name}"'.encode("ascii"))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, named]})
        if method == "HEAD":
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        await until_left(_send_chunks(shown, send), receive)
    finally:
        await shown.chunks.aclose()


async def _send_chunks(shown: Download, send: Send) -> None:
    async for chunk in shown.chunks:
        async with asyncio.timeout(limits.STREAM_SEND_SECONDS_MAX):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})

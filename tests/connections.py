"""The connections of servers that tests write themselves, and how they end.

A connection that the event loop does not see closed is reported as leaked when its memory is freed, in whichever test
runs at that moment. Closing is not enough: what nobody reads stays in the buffer, and the connection open.

Above it: servers in tests that are made of streams. Below it: asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

__all__ = ["hang_up"]


async def hang_up(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Close connections, whatever is still to be sent, and wait until the loop has seen it."""
    for writer in writers:
        # One that is closed already cannot always be aborted (CPython 3.11 then fails); with TLS it has no socket then.
        socket = writer.get_extra_info("socket")
        if socket is not None and socket.fileno() >= 0:
            writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

"""A transport that sends the head of an answer together with its body.

uvicorn writes them one after the other, and each write is a system call. A small piece is held until the next one is
there, which it nearly always is at once; if none comes in this turn of the event loop, as for a stream with nothing to
send yet, it is sent alone. `http_protocol` puts this between uvicorn and the transport of a connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["CoalescedWrites"]

# What is larger is sent as it is: to copy it would cost more than the call that is saved.
_JOINED_BYTES_MAX = 16_384


class CoalescedWrites:
    """Writes to a transport; everything else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._is_expected = False
        # Asked at every answer.
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send a piece, at the latest when this turn of the event loop ends."""
        held = self._held
        if held:
            self._held = b""
            if len(data) <= _JOINED_BYTES_MAX:
                self._transport.write(held + data)
            else:
                self._transport.writelines((held, data))
        elif len(data) > _JOINED_BYTES_MAX:
            self._transport.write(data)
        else:
            self._held = data
            if not self._is_expected:
                self._is_expected = True
                self._loop.call_soon(self._turn_ended)

    def write_now(self, data: bytes) -> None:
        """Send a piece that no other belongs to, after what is held."""
        self._send_held()
        self._transport.write(data)

    def _turn_ended(self) -> None:
        self._is_expected = False
        self._send_held()

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            # Whoever asked may have hung up meanwhile; then nobody hears it.
            if not self._transport.is_closing():
                self._transport.write(held)

    def close(self) -> None:
        """Send what is held, then hang up."""
        self._send_held()
        self._transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        self._held = b""
        self._transport.abort()

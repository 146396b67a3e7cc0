"""A transport that sends the head of a response together with its body.

uvicorn writes them one after the other, and each write is a system call. This transport holds a small piece until the
next one arrives, which nearly always happens at once. If none arrives in the same iteration of the event loop, as for a
stream with nothing to send yet, the piece is sent alone. `http_protocol` puts it between uvicorn and the transport of a
connection.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["CoalescedWrites"]

# Larger pieces are sent as they are: copying them would cost more than the saved system call.
_JOINED_BYTES_MAX = 16_384


class CoalescedWrites:
    """Joins small writes to a transport; everything else is delegated to the transport."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._is_expected = False
        # Bound here because every response calls it.
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send a piece, at the latest when this iteration of the event loop ends."""
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
        """Send the held piece, then this one at once, because no other belongs to it."""
        self._send_held()
        self._transport.write(data)

    def _turn_ended(self) -> None:
        self._is_expected = False
        self._send_held()

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            # The client may have disconnected meanwhile.
            if not self._transport.is_closing():
                self._transport.write(held)

    def close(self) -> None:
        """Send the held piece, then close the connection."""
        self._send_held()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._held = b""
        self._transport.abort()

"""Standard input and output as a pipe of lines, each of which is a message.

While the pipe is open, anything else that the process prints goes to standard error, and anything else that reads finds
the end of the file: only messages are on the pipe. The reader is a daemon thread, so that a signal ends the process at
once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.mcp_surface.wire.codes import INVALID_REQUEST
from penstock.mcp_surface.wire.messages import error_message

__all__ = ["Pipe", "PipeHandover", "standard_pipe"]

_LINE_BYTES_MAX = limits.REQUEST_BYTES_MAX
_WAITING_MAX = 64
_READ, _WRITE, _SAY = 0, 1, 2
# The line is not parsed only to find its id, so the answer has none.
_TOO_LONG = encode_bytes(
    error_message(None, INVALID_REQUEST, f"Invalid Request: a message has at most {_LINE_BYTES_MAX} bytes")
)


class Pipe:
    """Reads and writes lines."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._writing = asyncio.Lock()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield incoming lines until the other end closes.

        A line that is too long is answered with an error and skipped.
        """
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_MAX)
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop, waiting), daemon=True, name="penstock-pipe").start()
        while (line := await waiting.get()) is not None:
            if len(line) > _LINE_BYTES_MAX:
                await self.write(_TOO_LONG)
            elif line.strip():
                yield line

    def _read(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Queue[bytes | None]) -> None:
        # The loop may be closed while this thread waits for a line; then nobody needs the line.
        with suppress(RuntimeError, OSError, ValueError):
            while True:
                line = self._incoming.readline(_LINE_BYTES_MAX + 1)
                rest = line
                while len(rest) > _LINE_BYTES_MAX and not rest.endswith(b"\n"):
                    rest = self._incoming.readline(_LINE_BYTES_MAX + 1)
                asyncio.run_coroutine_threadsafe(waiting.put(line or None), loop).result()
                if not line:
                    return

    async def write(self, line: bytes) -> None:
        """Send a line; waits while the other end does not read."""
        async with self._writing:
            await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        # The other end is closed, so nobody would read the line.
        with suppress(BrokenPipeError):
            self._outgoing.write(line + b"\n")
            self._outgoing.flush()


@dataclass(frozen=True, slots=True)
class PipeHandover:
    """What the SDK's server takes over: a pipe whose first messages were answered without it."""

    lines: AsyncIterator[bytes]
    """The messages to come."""
    handshake: tuple[bytes, ...]
    """The messages of the handshake, which the server has to read too."""
    settled: Callable[[], Awaitable[None]]
    """Called when the server has read the handshake and reports changes by itself."""


@contextmanager
def standard_pipe() -> Iterator[Pipe]:
    """Open the pipe of this process."""
    incoming, outgoing = os.dup(_READ), os.dup(_WRITE)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _READ)
    os.dup2(_SAY, _WRITE)
    os.close(nothing)
    try:
        # The descriptor stays open: the thread may wait on it until the process ends.
        with os.fdopen(outgoing, "wb", closefd=False) as sink:
            yield Pipe(os.fdopen(incoming, "rb", closefd=False), sink)
    finally:
        os.dup2(outgoing, _WRITE)

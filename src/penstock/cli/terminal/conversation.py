"""Reading lines from the terminal without blocking the event loop.

A thread that waits for a line cannot be stopped, and would keep the process from ending after Ctrl-C. The event loop
watches the terminal instead, so waiting for a line can be cancelled like anything else.

Above it: the commands that ask. Below it: the terminal itself, in its ordinary line mode.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TerminalConversation", "TerminalLines", "can_ask"]

_READ_BYTES = 4096


def can_ask() -> bool:
    """True when there is a person at a terminal, on both sides of the conversation."""
    try:
        return sys.stdin.isatty() and sys.stdout.isatty() and hasattr(asyncio, "SelectorEventLoop") and os.name != "nt"
    except ValueError:  # a closed stream is no terminal
        return False


class TerminalLines:
    """Reads lines from standard input as they are typed."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._buffer = b""
        self._ended = False

    async def read(self) -> str | None:
        """The next line without its end; None at the end of input."""
        while b"\n" not in self._buffer and not self._ended:
            await self._readable()
            data = os.read(self._descriptor, _READ_BYTES)
            self._buffer += data
            self._ended = not data
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", errors="replace").removesuffix("\r")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        with _watching(loop, self._descriptor, ready):
            await ready


class TerminalConversation:
    """A conversation with the person at the terminal; everything is indented like the lines of a run."""

    def __init__(self) -> None:
        self._lines = TerminalLines()

    async def ask(self, prompt: str) -> str | None:
        """One line from the terminal."""
        sys.stdout.write(f"  {prompt}")
        sys.stdout.flush()
        line = await self._lines.read()
        if line is None:
            sys.stdout.write("\n")
        return line

    def tell(self, text: str) -> None:
        """Lines to the terminal."""
        for line in text.splitlines():
            sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()


@contextmanager
def _watching(loop: asyncio.AbstractEventLoop, descriptor: int, ready: asyncio.Future[None]) -> Iterator[None]:
    try:
        loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    except PermissionError:
        ready.set_result(None)  # a file, which can always be read
    try:
        yield
    finally:
        loop.remove_reader(descriptor)

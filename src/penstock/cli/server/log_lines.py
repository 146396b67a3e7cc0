"""Where the lines of a log go: to a stream, those of one turn of the event loop in one piece.

A server under load writes several lines in a turn, and each write costs more than the line. What is a warning or worse
is written at once, with everything before it, and so is what is logged outside of a loop or in another thread.

Above it: `working` sets it up. Below it: the standard library's logging.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TextIO

__all__ = ["GatheringHandler"]


class GatheringHandler(logging.Handler):
    """Writes lines to a stream, in the order in which they were logged."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: list[str] = []
        self._turn: asyncio.AbstractEventLoop | None = None  # the loop at the end of whose turn they are written

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        try:
            self._lines.append(self.format(record))
            if record.levelno >= logging.WARNING or not self._can_wait():
                self.flush()
        except Exception:  # as every handler of the standard library: a log must not end a program
            self.handleError(record)

    def _can_wait(self) -> bool:
        """Whether the line is written at the end of this turn of a loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._turn is not loop:
            self._turn = loop
            loop.call_soon(self._end_turn)
        return True

    def _end_turn(self) -> None:
        try:
            self.flush()
        except Exception:  # see `emit`
            self.handleError(logging.makeLogRecord({}))

    def flush(self) -> None:
        """Write what was gathered."""
        self.acquire()
        try:
            lines, self._lines, self._turn = self._lines, [], None
            if lines:
                lines.append("")
                self._stream.write("\n".join(lines))
                self._stream.flush()
        finally:
            self.release()

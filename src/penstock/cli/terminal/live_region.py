"""Lines that are drawn in place: below what was printed before, or on a screen of their own.

Only lines that fit are drawn, so nothing scrolls away. While a region is drawn, output of other code in this process
appears above it; a region with a screen of its own keeps that output until it ends.

Above it: the view of a run, `penstock runs top`. Below it: `console`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from threading import RLock
from types import TracebackType
from typing import Final, Self, TextIO

from penstock.cli.terminal.console import Console
from penstock.cli.terminal.styled_text import Text

__all__ = ["LiveRegion"]

_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_OPEN_SCREEN: Final = "\x1b[?1049h"
_CLOSE_SCREEN: Final = "\x1b[?1049l"
_TOP_LEFT: Final = "\x1b[H"
_ERASE_BELOW: Final = "\x1b[J"


class LiveRegion:
    """A region of the terminal that a console prints to, from `start` to `stop`."""

    def __init__(self, console: Console, *, own_screen: bool = False) -> None:
        self._console = console
        self._own_screen = own_screen
        self._lock = RLock()
        self._drawn: list[Text] = []
        self._kept: list[str] = []
        self._streams: tuple[TextIO, TextIO] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Hide the cursor, and catch what other code prints."""
        self._streams = sys.stdout, sys.stderr
        self._console.write_codes(f"{_OPEN_SCREEN if self._own_screen else ''}{_HIDE_CURSOR}")
        sys.stdout, sys.stderr = (_PrintAbove(stream, self) for stream in self._streams)

    def stop(self) -> None:
        """Remove the region, and show the cursor again."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _PrintAbove):
                stream.end_line()
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
        with self._lock:
            end = _CLOSE_SCREEN if self._own_screen else f"{self._to_first_line()}{_ERASE_BELOW}"
            self._console.write_codes(f"{end}{_SHOW_CURSOR}{''.join(self._kept)}")
            self._drawn, self._kept = [], []

    def draw(self, lines: Sequence[Text]) -> None:
        """Draw lines in the place of those before; each is cut at the edge."""
        with self._lock:
            width, height = self._console.size
            begin = _TOP_LEFT if self._own_screen else self._to_first_line()
            shown = [line.cut(width) for line in lines[:height]]
            # Erasing comes first: after a line that fills the window, it would take its last character too.
            self._console.write_codes(f"{begin}{_ERASE_BELOW}{self._codes_of(shown)}")
            self._drawn = shown

    def print_above(self, text: str | Text) -> None:
        """Print a text above the region, to stay."""
        self.write_above(self._console.codes_of(text) + "\n")

    def write_above(self, written: str) -> None:
        """Write whole lines, as they are, above the region."""
        with self._lock:
            if self._own_screen:
                self._kept.append(written)
                return
            self._console.write_codes(f"{self._to_first_line()}{_ERASE_BELOW}{written}{self._codes_of(self._drawn)}")

    def _codes_of(self, lines: Sequence[Text]) -> str:
        # The last line has no line feed: on the last line of the screen, it would scroll.
        return "\r\n".join(map(self._console.codes_of, lines))

    def _to_first_line(self) -> str:
        """Return what leads from the last line of the region to its first one."""
        # In a window that became narrower, the terminal has wrapped what was drawn.
        width = max(self._console.size[0], 1)
        rows = sum(max(-(-line.cells // width), 1) for line in self._drawn)
        return f"\r\x1b[{rows - 1}A" if rows > 1 else "\r"


class _PrintAbove(io.TextIOBase):
    """Stands in for a standard stream, and prints whole lines above the region."""

    def __init__(self, stream: TextIO, region: LiveRegion) -> None:
        super().__init__()
        self._stream = stream
        self._region = region
        self._begun = ""

    def write(self, text: str, /) -> int:
        """Print the lines that are complete; keep the rest."""
        lines, feed, rest = (self._begun + text).rpartition("\n")
        if feed:
            self._region.write_above(f"{lines}\n")
        self._begun = rest
        return len(text)

    def end_line(self) -> None:
        """Print a line that was not completed."""
        if self._begun:
            self.write("\n")

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a stream of the base class has none
        return self._stream.encoding

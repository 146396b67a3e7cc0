"""Consoles: printing for people.

A console colors its output on a terminal only, unless FORCE_COLOR is set; never with NO_COLOR or on a dumb terminal. It
replaces control characters, so that no text can move the cursor or hide another one.

Above it: all commands. Below it: `styled_text`.
"""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

from penstock.cli.terminal.styled_text import COLORS, STYLES, Text

__all__ = ["Console", "console_for", "count_words", "print_problem"]

_USUAL_SIZE: Final = (80, 24)
_DUMB: Final = ("dumb", "unknown")
_CONTROLS: Final = {
    number: "\N{REPLACEMENT CHARACTER}" for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\n\t"
}

# A line that continues a problem, below `error: ` and `  hint: `.
_PROBLEM_INDENT: Final = 8


class Console:
    """Prints styled text to a stream. A pipe gets whole lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        is_styled = self.is_terminal and os.environ.get("TERM", "") not in _DUMB
        self.has_styles = is_styled or bool(os.environ.get("FORCE_COLOR"))
        self._has_colors = self.has_styles and not os.environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal, or the usual ones; COLUMNS and LINES overrule both."""
        columns, lines = self._terminal_size()
        return _positive_number("COLUMNS") or columns, _positive_number("LINES") or lines

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self.size[0]

    def print(self, text: str | Text = "", *, end: str = "\n", cut: bool = False) -> None:
        """Print a text; with `cut`, its line ends at the edge of a terminal."""
        if cut and self.is_terminal:
            text = (Text(text) if isinstance(text, str) else text).cut(self.width)
        self.write_codes(f"{self.codes_of(text)}{end}")

    def print_wrapped(self, text: Text, *, indent: int) -> None:
        """Print a text whose lines a terminal breaks between words, and indents after a break."""
        for line in text.wrap(self.width, indent=indent) if self.is_terminal else [text]:
            self.print(line)

    def codes_of(self, text: str | Text) -> str:
        """Return a text with its styles as a terminal reads them."""
        if isinstance(text, str):
            return text.translate(_CONTROLS)
        return "".join(self._style_text(piece.translate(_CONTROLS), style) for piece, style in text.parts())

    def write_codes(self, codes: str) -> None:
        """Write as it is, at once."""
        self._stream.write(codes)
        self._stream.flush()

    def _style_text(self, text: str, style: str) -> str:
        codes = [STYLES[word] for word in style.split() if word in STYLES] if self.has_styles else []
        codes += [COLORS[word] for word in style.split() if word in COLORS] if self._has_colors else []
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if codes and text else text

    def _terminal_size(self) -> tuple[int, int]:
        for stream in (self._stream, sys.__stdin__, sys.__stdout__, sys.__stderr__):
            try:
                found = os.get_terminal_size(stream.fileno()) if stream is not None else None
            except (OSError, ValueError):  # no terminal, or closed
                continue
            if found is not None and found.columns and found.lines:
                return found.columns, found.lines
        return _USUAL_SIZE


def console_for(stream: TextIO) -> Console:
    """A console for a stream."""
    return Console(stream)


def print_problem(message: str) -> None:
    """Say on standard error why a command could not do its work."""
    text = Text.assemble(("error", "bold red"), f": {message}")
    console_for(sys.stderr).print_wrapped(text, indent=_PROBLEM_INDENT)


def count_words(count: int, noun: str) -> str:
    """A number with its noun: `1 error`, `2 errors`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _positive_number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) or None if text.isascii() and text.isdigit() else None

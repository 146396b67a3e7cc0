"""Counts the values in a JSON text without decoding it, and while it arrives.

A decoder creates an object for every value and cannot be interrupted: four megabytes of `[]` take a second and a
hundred megabytes of memory. Counting the separators between values takes a few passes over the bytes, and milliseconds.

Above it: `bounded_body`, `mcp.stdio`, executors that decode a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["TokenCounter", "has_more_tokens"]

_OPENERS = (b",", b"[", b"{")
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f]+")


@dataclass(slots=True)
class TokenCounter:
    """Counts commas and opening brackets outside strings, and strings, over the pieces of a text as they arrive."""

    tokens: int = 0
    _in_string: bool = False
    _escaping: bool = False

    def feed(self, piece: bytes) -> int:
        """Count a piece. Returns the total so far."""
        if self._escaping and piece:
            piece, self._escaping = piece[1:], False
        if b"\\" in piece:
            # A backslash at the end escapes the next character, unless it is escaped itself.
            self._escaping = (len(piece) - len(piece.rstrip(b"\\"))) % 2 == 1
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        between = piece.split(b'"')
        outside = b"".join(between[1 if self._in_string else 0 :: 2])
        opened = len(between) // 2 if not self._in_string else (len(between) - 1) // 2
        self._in_string ^= len(between) % 2 == 0
        self.tokens += opened + sum(outside.count(mark) for mark in _OPENERS)
        return self.tokens

    def feed_lines(self, piece: bytes) -> int:
        """Count a piece of a text whose strings end with their line, so that a quote in a comment hides nothing."""
        first, *others = _CONTROLS.split(piece)
        self.feed(first)
        for line in others:
            self._in_string = self._escaping = False
            self.feed(line)
        return self.tokens

    def clear(self) -> None:
        """Start another text."""
        self.tokens, self._in_string, self._escaping = 0, False, False


def has_more_tokens(text: bytes, most: int) -> bool:
    """True if a JSON text has more than `most` values."""
    return TokenCounter().feed(text) > most

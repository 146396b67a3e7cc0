"""Texts of people and models as they are, on every page for people: what would not be seen is written out.

Above it: the console, the page that answers a question, `html_form`. Below it: nothing.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["UNSEEN_RANGES", "visible_text"]

_Text = TypeVar("_Text", bound=str)
UNSEEN_RANGES = (
    (0x00, 0x08),
    (0x0B, 0x0C),
    (0x0E, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
)
"""Characters that are not seen, and change how others are: directions, joiners, tags, controls; but not white space.

The first and the last of each range.
"""

_UNSEEN = {number: f"[U+{number:04X}]" for first, last in UNSEEN_RANGES for number in range(first, last + 1)}


def visible_text(text: _Text) -> _Text:
    """Return a text in which characters that hide, or change the order of others, are written as their numbers.

    Markup stays markup: nothing is added that would have to be escaped.
    """
    if text.isascii() and text.isprintable():
        return text  # nearly every text: nothing in it is unseen
    found: _Text = text.translate(_UNSEEN)  # type: ignore[assignment]  # markup translates to markup
    return found

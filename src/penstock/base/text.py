"""Untrusted text for people to read: cleaned, measured, and cut to a width.

Widths come from a table of an ordinary sans-serif font. Drawings name no particular font, so every width has a margin.
Above it: `drawing`, the command line, comparisons. It writes no markup: escaping is up to each format.
"""

from __future__ import annotations

import unicodedata

__all__ = ["clean", "clean_lines", "fit", "width_of"]

# Advance widths of ASCII 32 to 126 in thousandths of the font size.
_WIDTHS = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
)
_FIRST, _LAST = 32, 126
_WIDE, _OTHER = 1000, 640
# Bold faces are wider, and some platforms fall back to a face that is wider than the table.
_BOLD_FACTOR = 1.08
_MARGIN_FACTOR = 1.18
_ELLIPSIS = "…"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# The last two code points of every plane are not characters.
_PLANE_END = 0xFFFE


def clean(text: str) -> str:
    """Turn text into one line that every format can hold.

    White space is collapsed, invisible format characters (they can reverse the direction of text) are removed, and
    characters that XML forbids are replaced.
    """
    return "".join(map(_visible, " ".join(text.split())))


def clean_lines(text: str) -> str:
    """Do the same to a text of several lines, or a piece of one: its spaces, tabs and line feeds stay."""
    return "".join(character if character in "\n\t" else _visible(character) for character in text)


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    return _REPLACEMENT if category in ("Cc", "Cs") or ord(character) & _PLANE_END == _PLANE_END else character


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text at a font size; rather too wide than too narrow."""
    thousandths = sum(_thousandths(character) for character in text)
    return thousandths * size / 1000 * _MARGIN_FACTOR * (_BOLD_FACTOR if bold else 1)


def fit(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Cut a text with an ellipsis if it is wider than `width`."""
    if width_of(text, size, bold=bold) <= width:
        return text
    room = width - width_of(_ELLIPSIS, size, bold=bold)
    kept = 0
    for character in text:
        room -= width_of(character, size, bold=bold)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + _ELLIPSIS


def _thousandths(character: str) -> int:
    code = ord(character)
    if _FIRST <= code <= _LAST:
        return _WIDTHS[code - _FIRST]
    if unicodedata.combining(character):
        return 0
    return _WIDE if unicodedata.east_asian_width(character) in ("W", "F") else _OTHER

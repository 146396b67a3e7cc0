"""How many cells of a terminal a text takes, and cutting it to a number of cells.

Wide characters and emoji take two cells, combining characters none. Emoji that are joined by ZERO WIDTH JOINER count as
one, as in current terminals.

Above it: `styled_text`, and whatever aligns columns. Below it: Unicode's tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    import unicodedata
else:
    # Hardly any text of help needs it.
    unicodedata = lazy_import("unicodedata")

__all__ = ["ELLIPSIS", "cell_count", "cut_cells", "fit_cells", "split_clusters"]

ELLIPSIS: Final = "…"
_WIDE: Final = 2
_JOINER: Final = "\u200d"
_EMOJI_SELECTOR: Final = "\ufe0f"
_SOFT_HYPHEN: Final = "\u00ad"
_SKIN_TONES: Final = range(0x1F3FB, 0x1F400)
# Vowels and final consonants of Hangul syllables are drawn over the consonant before them.
_JOINED_HANGUL: Final = (range(0x1160, 0x1200), range(0xD7B0, 0xD800))


def cell_count(text: str) -> int:
    """Count the cells of a line."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(cells for _, cells in split_clusters(text))


def split_clusters(text: str) -> Iterator[tuple[str, int]]:
    """Split a line into what a terminal draws as one character, each with its cells."""
    cluster, cells, is_joined = "", 0, False
    for character in text:
        own = _cells_of(character)
        is_tone = cells == _WIDE and ord(character) in _SKIN_TONES
        if cluster and (is_joined or is_tone or (not own and not _is_control(character))):
            cluster += character
            # A sign that can be drawn as text or as an emoji becomes an emoji.
            if character == _EMOJI_SELECTOR and cells == 1:
                cells = _WIDE
            is_joined = character == _JOINER and cells > 1
        else:
            if cluster:
                yield cluster, cells
            cluster, cells, is_joined = character, own, False
    if cluster:
        yield cluster, cells


def cut_cells(text: str, cells: int) -> str:
    """Return a text that takes at most so many cells; what is cut off ends in an ellipsis."""
    if cell_count(text) <= cells:
        return text
    return _cut_at(text, cells - 1) + ELLIPSIS if cells > 0 else ""


def fit_cells(text: str, cells: int) -> str:
    """Return a text in exactly so many cells, cut or padded."""
    shown = cut_cells(text, cells)
    return shown + " " * (cells - cell_count(shown))


def _cut_at(text: str, cells: int) -> str:
    kept = []
    for cluster, own in split_clusters(text):
        cells -= own
        if cells < 0:
            break
        kept.append(cluster)
    return "".join(kept)


@lru_cache(maxsize=4096)
def _cells_of(character: str) -> int:
    if character == _SOFT_HYPHEN:
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Zl", "Zp"):
        return 0
    if any(ord(character) in joined for joined in _JOINED_HANGUL):
        return 0
    return _WIDE if unicodedata.east_asian_width(character) in "WF" else 1


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc"

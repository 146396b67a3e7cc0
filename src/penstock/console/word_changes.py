"""What changed between two texts, for people: by words, or by lines of documents.

Long texts are not compared: that takes time with the product of their lengths.

Above it: the pages. Below it: `difflib`.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from re import findall
from typing import Literal, NamedTuple

from penstock.base import limits
from penstock.console.rendering import value_pieces, whole_value

__all__ = ["Piece", "changed_lines", "changed_words"]


class Piece(NamedTuple):
    """A piece of a text that is the same, was added or was removed."""

    kind: Literal["same", "added", "removed"]
    text: str


def changed_words(before: object, after: object) -> list[Piece] | None:
    """Return two values as one text with marks; None if they are too long to be compared."""
    old, new = (
        findall(r"\s+|\w+|[^\w\s]", whole_value(value)) if value is not None else [] for value in (before, after)
    )
    if len(old) + len(new) > limits.CONSOLE_COMPARED_WORDS_MAX:
        return None
    return [*_pieces(old, new)]


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    for tag, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield Piece("same", "".join(old[first:last]))
            continue
        if first < last:
            yield Piece("removed", "".join(old[first:last]))
        if begin < end:
            yield Piece("added", "".join(new[begin:end]))


def changed_lines(before: object, after: object) -> list[Piece] | None:
    """Return the lines that differ between two values, with some around them; None if there are too many to compare."""
    old, new = _lines(before), _lines(after)
    if old is None or new is None or len(old) + len(new) > limits.CONSOLE_COMPARED_LINES_MAX:
        return None
    kinds: dict[str, Literal["added", "removed"]] = {"+": "added", "-": "removed"}
    lines = islice(unified_diff(old, new, lineterm="", n=3), 2, None)  # the first two name files
    return [Piece(kinds.get(line[:1], "same"), line) for line in lines]


def _lines(value: object) -> list[str] | None:
    """The lines of a value; None, as soon as that is known, if there are too many."""
    pieces, ends = [], 0
    for piece in value_pieces(value):
        pieces.append(piece)
        ends += piece.count("\n")
        if ends > limits.CONSOLE_COMPARED_LINES_MAX:
            return None
    return "".join(pieces).splitlines()

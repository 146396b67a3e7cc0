"""Choices from a list of words: the nearest one to a mistyped word, and how a refusal of it reads on every surface.

Above it: schemas, findings, and surfaces that take words of their own wire. It decides nothing.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from penstock.base.limits import GUESS_CHARACTERS_MAX

__all__ = ["list_choices", "nearest", "refuse_choice"]

# Below this similarity a suggestion confuses more than it helps.
SIMILARITY_MIN = 0.6
# Nobody reads a sentence with more choices than this.
_LISTED_MAX = 6


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most similar to `word`, or None when none is close."""
    by_folded: dict[str, str] = {}
    for candidate in candidates:
        by_folded.setdefault(candidate.casefold(), candidate)
    matches = get_close_matches(word.casefold(), by_folded, n=1, cutoff=SIMILARITY_MIN)
    return by_folded[matches[0]] if matches else None


def refuse_choice(value: str, choices: Collection[str]) -> str:
    """Return why a text that is not among some choices is refused, with the nearest choice or a short list of all."""
    shown = value if len(value) <= GUESS_CHARACTERS_MAX else f"{value[:GUESS_CHARACTERS_MAX]}…"
    message = f"unknown value `{shown}`"
    if meant := nearest(value[:GUESS_CHARACTERS_MAX], choices):
        return f"{message}; did you mean `{meant}`?"
    if 0 < len(choices) <= _LISTED_MAX and all(len(choice) <= GUESS_CHARACTERS_MAX for choice in choices):
        return f"{message}; use {list_choices(choices)}"
    return message


def list_choices(choices: Iterable[str]) -> str:
    """Return choices as words of a sentence: "`a`, `b` or `c`"."""
    *others, last = (f"`{choice}`" for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last

"""Guesses at what a misspelt name was meant to be, within a budget.

Used by the graph, expression and type checks. Comparing names takes time in proportion to how many there are, so a
document made of nothing but unknown names must not keep a server busy: when the budget is spent, there are no guesses.
The comparison itself is in `findings`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.base.limits import GUESS_CHARACTERS_MAX, GUESS_COMPARISONS_MAX
from penstock.definitions.source.findings import nearest

__all__ = ["Guesses"]

# More names than this in a hint are not read.
_LISTED_MAX = 6


@dataclass(slots=True)
class Guesses:
    """Finds near names for the unknown names of one document."""

    comparisons_left: int = GUESS_COMPARISONS_MAX

    def nearest(self, word: str, candidates: Collection[str]) -> str | None:
        """The candidate that was probably meant, or None."""
        if len(word) > GUESS_CHARACTERS_MAX or len(candidates) > self.comparisons_left:
            return None
        self.comparisons_left -= len(candidates)
        return nearest(word, [name for name in candidates if len(name) <= GUESS_CHARACTERS_MAX])

    def hint(self, word: str, candidates: Collection[str], *, otherwise: str = "there is") -> str | None:
        """A question that offers the nearest name; if none is near, the names there are, when they are few."""
        guess = self.nearest(word, candidates)
        if guess is not None:
            return f"did you mean `{guess}`?"
        if 0 < len(candidates) <= _LISTED_MAX and all(len(name) <= GUESS_CHARACTERS_MAX for name in candidates):
            return f"{otherwise} {', '.join(f'`{name}`' for name in candidates)}"
        return None

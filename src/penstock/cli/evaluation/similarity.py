"""How similar two texts are: the Dice coefficient of their character trigrams, between 0 and 1.

    similarity("The order was sent.", "the order  was sent")    0.94

Before they are compared, texts are brought to one Unicode form (NFKC) and lower case, and white space is collapsed.
Then every three characters in a row count as a trigram, with the ends of the text as characters. The measure is twice
the number of trigrams that both have, divided by the number of all. So it forgives spelling and small changes, and
knows nothing of meaning: two sentences that say the same in other words are not similar. For those, use a judge.

Above it: `expectations`. Below it: the standard library.
"""

from __future__ import annotations

import unicodedata
from collections import Counter

from penstock.base import limits

__all__ = ["similarity"]

_SIZE = 3
# No character of a text that was brought to one form: white space in it is a space.
_END = "\n"


def similarity(first: str, second: str) -> float:
    """Return how similar two texts are; 1 for equal ones, 0 for texts without any three characters in common."""
    one, other = _plain(first), _plain(second)
    if one == other:
        return 1.0
    ours, theirs = _trigrams(one), _trigrams(other)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def _plain(text: str) -> str:
    cut = text[: limits.EVALUATION_SIMILAR_CHARACTERS_MAX]
    return " ".join(unicodedata.normalize("NFKC", cut).casefold().split())


def _trigrams(text: str) -> Counter[str]:
    framed = f"{_END}{_END}{text}{_END}{_END}"
    return Counter(framed[start : start + _SIZE] for start in range(len(framed) - _SIZE + 1))

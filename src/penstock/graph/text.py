"""Text search, ranking and distances, computed from the values themselves.

They need no index, so their results are exact on every branch and at every snapshot: an index would mix versions. A
text is split into words (letters and digits of any script, compared without case and accents).

* `search`: every word of the query occurs. `match_text`: the words of the query occur next to each other, in order.
* `fuzzy`: for every word of the query there is a word that differs from it by a few edits at most.
* `bm25`: the usual score (k1 = 1.2, b = 0.75). Its statistics are those of all values of the property in the view,
  whatever the query filters.
* `distance`: Euclidean.

Above it: the functions that the SQLite store registers. Below it: nothing.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from array import array
from collections import Counter
from functools import lru_cache

__all__ = ["Bm25Statistics", "bm25", "distance", "fuzzy", "match_text", "search", "words_of"]

_WORD = re.compile(r"[^\W_]+")
_K1, _B = 1.2, 0.75


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, without case and accents."""
    if not text.isascii():
        plain = unicodedata.normalize("NFKD", text)
        text = "".join(character for character in plain if not unicodedata.combining(character))
    return tuple(_WORD.findall(text.casefold()))


def search(text: str | None, query: str | None) -> int | None:
    """Whether every word of the query occurs; null if either is. A query without words matches nothing."""
    if text is None or query is None:
        return None
    wanted = set(words_of(query))
    return int(bool(wanted) and wanted.issubset(words_of(text)))


def match_text(text: str | None, query: str | None) -> int | None:
    """Whether the words of the query occur next to each other."""
    if text is None or query is None:
        return None
    wanted, words = words_of(query), words_of(text)
    length = len(wanted)
    return int(length > 0 and any(words[at : at + length] == wanted for at in range(len(words) - length + 1)))


def fuzzy(text: str | None, query: str | None, edits: int) -> int | None:
    """Whether every word of the query has a word at most so many edits away."""
    if text is None or query is None:
        return None
    wanted, words = words_of(query), set(words_of(text))
    return int(bool(wanted) and all(any(_is_near(one, other, edits) for other in words) for one in wanted))


def _is_near(one: str, other: str, edits: int) -> bool:
    """Whether two words are at most so many insertions, deletions and replacements apart."""
    if one == other:
        return True
    if abs(len(one) - len(other)) > edits:
        return False
    previous = list(range(len(other) + 1))
    for row, character in enumerate(one, 1):
        current = [row]
        for column, against in enumerate(other, 1):
            replaced = previous[column - 1] + (character != against)
            current.append(min(previous[column] + 1, current[-1] + 1, replaced))
        if min(current) > edits:
            return False
        previous = current
    return previous[-1] <= edits


class Bm25Statistics:
    """What `bm25` needs to know about all values of a property."""

    def __init__(self) -> None:
        self._documents = 0
        self._words = 0
        self._with_word: Counter[str] = Counter()
        self._wanted: frozenset[str] = frozenset()

    def step(self, text: str | None, query: str | None, /) -> None:
        """Count one value."""
        if text is None or query is None:
            return
        words = words_of(text)
        self._wanted = self._wanted or frozenset(words_of(query))
        self._documents += 1
        self._words += len(words)
        self._with_word.update(self._wanted.intersection(words))

    def finalize(self) -> str:
        """The statistics as JSON."""
        return json.dumps([self._documents, self._words, self._with_word], sort_keys=True)


@lru_cache(maxsize=64)
def _statistics(stored: str) -> tuple[int, int, dict[str, int]]:
    documents, words, with_word = json.loads(stored)
    return documents, words, with_word


def bm25(text: str | None, query: str | None, statistics: str | None) -> float | None:
    """The score of a text; null if no word of the query occurs in it."""
    if text is None or query is None or statistics is None:
        return None
    documents, total, with_word = _statistics(statistics)
    words = words_of(text)
    counts = Counter(words)
    mean = total / documents if total else 1.0
    score, found = 0.0, False
    for word in dict.fromkeys(words_of(query)):
        count = counts[word]
        if not count:
            continue
        found = True
        holding = with_word.get(word, 0)
        rarity = math.log(1 + (documents - holding + 0.5) / (holding + 0.5))
        score += rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * len(words) / mean))
    return score if found else None


def distance(stored: bytes | None, query: bytes | None) -> float | None:
    """The Euclidean distance of two stored vectors; null if either is missing or they differ in length."""
    if stored is None or query is None or len(stored) != len(query):
        return None
    return math.dist(array("f", stored), array("f", query))

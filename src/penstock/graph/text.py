"""Text search, ranking and distances, computed from the values themselves.

They need no index, so their results are exact on every branch and at every snapshot. An index of words
(`penstock.graph.text_index`) only says which texts need not be looked at. A text is split into words (letters and
digits of any script, compared without case and accents).

* `search`: every word of the query occurs. `match_text`: the words of the query occur next to each other, in order.
* `fuzzy`: for every word of the query there is a word that differs from it by a few edits at most.
* `bm25`: the usual score (k1 = 1.2, b = 0.75). Its statistics are those of all values of the property in the view,
  whatever the query filters.
* `distance`: Euclidean.

Above it: `text_index`, the functions that the SQLite store registers. Below it: limits.
"""

from __future__ import annotations

import json
import math
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from penstock.base import limits

__all__ = [
    "Bm25Statistics",
    "NearWord",
    "bm25",
    "distance",
    "fuzzy",
    "match_text",
    "search",
    "words_of",
    "written_statistics",
]

_WORD = re.compile(r"[^\W_]+")
_K1, _B = 1.2, 0.75


@lru_cache(maxsize=limits.GRAPH_QUERY_WORDS_KEPT_MAX)
def _query_words(query: str) -> tuple[str, ...]:
    """The words of a query, which every text is compared with."""
    return words_of(query)


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
    wanted = set(_query_words(query))
    return int(bool(wanted) and wanted.issubset(words_of(text)))


def match_text(text: str | None, query: str | None) -> int | None:
    """Whether the words of the query occur next to each other."""
    if text is None or query is None:
        return None
    wanted, words = _query_words(query), words_of(text)
    length = len(wanted)
    return int(length > 0 and any(words[at : at + length] == wanted for at in range(len(words) - length + 1)))


def fuzzy(text: str | None, query: str | None, edits: int) -> int | None:
    """Whether every word of the query has a word at most so many edits away."""
    if text is None or query is None:
        return None
    near, words = _near_words(query, edits), set(words_of(text))
    return int(bool(near) and all(any(map(each.includes, words)) for each in near))


class NearWord:
    """All words that are at most so many edits away from a word."""

    def __init__(self, word: str, edits: int) -> None:
        self._word = word
        self._edits = edits
        # An edit changes one of these parts, or lies between two of them: at least one is left as it is.
        size, more = divmod(len(word), edits + 1)
        ends = [number * size + min(number, more) for number in range(edits + 2)]
        self._parts = tuple(word[start:end] for start, end in pairwise(ends)) if size else ()

    def includes(self, other: str) -> bool:
        """Whether a word is one of them."""
        if abs(len(self._word) - len(other)) > self._edits:
            return False
        if self._parts and not any(part in other for part in self._parts):
            return False
        return _is_near(self._word, other, self._edits)


@lru_cache(maxsize=limits.GRAPH_QUERY_WORDS_KEPT_MAX)
def _near_words(query: str, edits: int) -> tuple[NearWord, ...]:
    return tuple(NearWord(word, edits) for word in words_of(query))


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
        self._wanted = self._wanted or frozenset(_query_words(query))
        self._documents += 1
        self._words += len(words)
        self._with_word.update(self._wanted.intersection(words))

    def finalize(self) -> str:
        """The statistics as JSON."""
        return written_statistics(self._documents, self._words, self._with_word)


def written_statistics(documents: int, words: int, with_word: Mapping[str, int]) -> str:
    """Statistics as JSON: how many texts there are, how many words, and how many texts have each word of the query."""
    return json.dumps([documents, words, with_word], sort_keys=True)


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
    for word in dict.fromkeys(_query_words(query)):
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
    unpack, wanted = _wanted_vector(query)
    return math.dist(unpack(stored), wanted)


@lru_cache(maxsize=16)
def _wanted_vector(query: bytes) -> tuple[Callable[[bytes], tuple[Any, ...]], tuple[float, ...]]:
    """How vectors of this size are decoded, and the one that a query asks for: every row is compared with it."""
    unpack = struct.Struct(f"<{len(query) // 4}f").unpack
    return unpack, unpack(query)

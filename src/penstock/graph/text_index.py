"""What an index of words holds of a text, and what it is asked.

An index finds candidates: every text that matches is among them, and `penstock.graph.text` then looks at each. So a
question may be weaker than what is searched for, and is where the index cannot answer exactly. The words are those of
`words_of`; they follow the tables of Unicode that Python has, so an index says which ones it was made with.

The questions are in the language of SQLite's FTS5, with words in quotation marks. An index splits what it is given at
spaces only (its tokenizer `ascii` keeps every other character that a word can have).

Above it: the functions that the SQLite store registers, the SQL compiler. Below it: `text`, limits.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from penstock.base import limits
from penstock.graph.text import NearWord, words_of

__all__ = ["UNICODE", "NearTerms", "all_words", "any_word", "countable_words", "indexed_words", "phrase"]

UNICODE = unicodedata.unidata_version
"""The tables that words are made with."""
# Every text has this word, which is no letter, so no query has it.
_EVERY = "\ue000"
_NOTHING = '""'


def indexed_words(text: str) -> str:
    """What an index holds of a text: its words, each with a space before it."""
    return " ".join([_EVERY, *_cut(words_of(text))])


def countable_words(query: str) -> list[str] | None:
    """The words of a query, if an index can say exactly which texts have each of them; else None."""
    words = list(dict.fromkeys(words_of(query)))
    is_exact = all(len(word) < limits.GRAPH_SEARCH_WORD_CHARACTERS_MAX for word in words)
    return words if is_exact and len(words) <= limits.GRAPH_SEARCH_TERMS_MAX else None


def _cut(words: Iterable[str]) -> list[str]:
    return [word[: limits.GRAPH_SEARCH_WORD_CHARACTERS_MAX] for word in words]


def all_words(query: str | None) -> str:
    """The texts that have every word of a query; of a long one, the first words."""
    words = list(dict.fromkeys(_cut(words_of(query or ""))))
    return " AND ".join(f'"{word}"' for word in words[: limits.GRAPH_SEARCH_TERMS_MAX]) or _NOTHING


def phrase(query: str | None) -> str:
    """The texts in which the words of a query are next to each other; of a long one, the first words."""
    words = _cut(words_of(query or ""))
    return f'"{" ".join(words[: limits.GRAPH_SEARCH_TERMS_MAX])}"'


def any_word(query: str | None) -> str:
    """The texts that have a word of a query."""
    words = list(dict.fromkeys(_cut(words_of(query or ""))))
    if len(words) > limits.GRAPH_SEARCH_TERMS_MAX:
        return f'"{_EVERY}"'
    return " OR ".join(f'"{word}"' for word in words) or _NOTHING


class NearTerms:
    """An aggregate over all words of an index: the texts that have a word near each word of a query."""

    def __init__(self) -> None:
        self._near: list[tuple[NearWord, list[str]]] | None = None

    def step(self, term: str, query: str | None, edits: int, /) -> None:
        """Look at one word of the index."""
        if self._near is None:
            self._near = [(NearWord(word, edits), []) for word in dict.fromkeys(words_of(query or ""))]
        if term == _EVERY:
            return
        is_cut = len(term) >= limits.GRAPH_SEARCH_WORD_CHARACTERS_MAX
        for near, found in self._near:
            if len(found) <= limits.GRAPH_SEARCH_TERMS_MAX and (is_cut or near.includes(term)):
                found.append(term)

    def finalize(self) -> str:
        """The question. A word with too many words near it is left out of it."""
        if not self._near or not all(found for _, found in self._near):
            return _NOTHING
        groups = []
        for _, found in self._near[: limits.GRAPH_SEARCH_TERMS_MAX]:
            if len(found) <= limits.GRAPH_SEARCH_TERMS_MAX:
                groups.append("(" + " OR ".join(f'"{term}"' for term in found) + ")")
        return " AND ".join(groups) or f'"{_EVERY}"'

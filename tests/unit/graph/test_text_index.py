"""What an index of words holds, and what it is asked."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.graph import text, text_index

LONG = "y" * (limits.GRAPH_SEARCH_WORD_CHARACTERS_MAX + 3)
WORDS = st.sampled_from(["fox", "Föx", "foxes", "日本", "ﬁn", "straße", "OR", "NOT", "near", "a1", LONG, LONG + "z"])
TEXTS = st.lists(WORDS | st.text(max_size=6).filter(lambda each: "\0" not in each), max_size=6).map(" ".join)


def found(texts: list[str], question: str) -> set[int]:
    """The texts that an index finds."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (words, columnsize = 0, tokenize = 'ascii')")
    rows = [(number, text_index.indexed_words(each)) for number, each in enumerate(texts)]
    connection.executemany("INSERT INTO texts (rowid, words) VALUES (?, ?)", rows)
    return {number for (number,) in connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (question,))}


def terms(texts: list[str]) -> set[str]:
    return {word for each in texts for word in text_index.indexed_words(each).split(" ")}


def near(texts: list[str], query: str, edits: int) -> str:
    asked = text_index.NearTerms()
    for term in sorted(terms(texts)):
        asked.step(term, query, edits)
    return asked.finalize()


@given(st.lists(TEXTS, min_size=1, max_size=5), TEXTS, st.sampled_from([1, 2]))
def test_every_text_that_matches_is_found(texts: list[str], query: str, edits: int) -> None:
    numbered = list(enumerate(texts))
    assert found(texts, text_index.all_words(query)) >= {at for at, each in numbered if text.search(each, query)}
    assert found(texts, text_index.phrase(query)) >= {at for at, each in numbered if text.match_text(each, query)}
    assert found(texts, near(texts, query, edits)) >= {at for at, each in numbered if text.fuzzy(each, query, edits)}
    wanted = set(text.words_of(query))
    holding = {at for at, each in numbered if wanted.intersection(text.words_of(each))}
    assert found(texts, text_index.any_word(query)) >= holding


@pytest.mark.parametrize("query", [None, "", " ... _ "])
def test_a_query_without_words_finds_nothing(query: str | None) -> None:
    texts = ["fox", ""]
    questions = [text_index.all_words(query), text_index.phrase(query), text_index.any_word(query)]
    asked = text_index.NearTerms()
    asked.step("fox", query, 1)
    for question in [*questions, asked.finalize()]:
        assert found(texts, question) == set()


def test_only_texts_that_can_match_are_found() -> None:
    texts = ["the quick brown fox", "brown quick", "slow"]
    assert found(texts, text_index.all_words("quick brown")) == {0, 1}
    assert found(texts, text_index.phrase("quick brown")) == {0}
    assert found(texts, text_index.any_word("slow fox")) == {0, 2}
    assert found(texts, near(texts, "quik slaw", 1)) == set()
    assert found(texts, near(texts, "quik", 1)) == {0, 1}


def test_a_long_query_asks_a_weaker_question() -> None:
    words = [f"w{number}" for number in range(limits.GRAPH_SEARCH_TERMS_MAX + 10)]
    texts = [" ".join(words), " ".join(words[:-1]), "other"]
    query = " ".join(words)
    assert found(texts, text_index.all_words(query)) == {0, 1}
    assert found(texts, text_index.phrase(query)) == {0, 1}
    assert found(texts, text_index.any_word(query)) == {0, 1, 2}
    short = " ".join(one + other for one in "abcdefghijklmnopqrstuvwxyz" for other in "abcdefghijklmnopqrstuvwxyz")
    assert found([short, "other"], near([short, "other"], "a", 2)) == {0, 1}


@given(st.text("ab", max_size=7), st.text("abc", max_size=7), st.sampled_from([1, 2]))
def test_near_words_are_those_with_few_edits(word: str, other: str, edits: int) -> None:
    assert text.NearWord(word, edits).includes(other) == (_edits(word, other) <= edits)


def _edits(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return _edits(one[1:], other[1:])
    return 1 + min(_edits(one[1:], other), _edits(one, other[1:]), _edits(one[1:], other[1:]))

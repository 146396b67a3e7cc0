"""Runs by their texts, from an array of letters per run with an index of its own (GIN).

A run has its words, and of each the part that a search may look into. Any three letters of that part are in the array,
and the one to three first letters of each word, after a mark. A search takes the runs that have the letters of all its
words, and checks the words.

Above it: `database`. Below it: `changes`; `tables.search_rules` defines what matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.base.ids import RUN_ID_TIME_CHARACTERS
from penstock.runtime.ports.run_index import FoundRuns, RunText
from penstock.runtime.ports.runs import ChangePage
from penstock.runtime.ports.transactions import Reader, Transaction
from penstock.runtime.tables.search_rules import PART_CHARACTERS_MIN, generated_id_in, run_words
from tests.conformance.postgresql.changes import read_changes

__all__ = ["PostgresRunIndex"]

# Before the first letters of a word. It separates words, so no word has it.
_MARK = " "
_ADD = "INSERT INTO run_texts (run, words, parts, letters) VALUES (?,?,?,?)"
_FORGET = "DELETE FROM run_texts WHERE run = ?"
_BEGINS = "starts_with(found.word, ?)"
_CONTAINS = "strpos(found.part, ?) > 0"
_HAS_WORD = (
    "EXISTS (SELECT 1 FROM run_texts, unnest(words, parts) AS found (word, part) WHERE run_texts.run = key AND {test})"
)
_NUL = "\0"


class PostgresRunIndex:
    """Searches with arrays of letters. Rows of history have the number of the transaction that stored them."""

    def add(self, transaction: Transaction, key: int, text: RunText) -> None:
        """Make a run findable by its text."""
        words = run_words(text.tenant, text.run_id, text.workflow_name, text.label_values)
        parts = [word[len(generated_id_in(word)) :] for word in words]
        letters = sorted({letters for word in words for letters in _letters_of(word)})
        transaction.execute(_ADD, (key, words, parts, letters))

    def forget(self, transaction: Transaction, key: int, text: RunText) -> None:
        """Remove a run from the index."""
        transaction.execute(_FORGET, (key,))

    def find(self, reader: Reader, text: str, words: Sequence[str]) -> FoundRuns:
        """Find by letters, and check every word."""
        if any(_NUL in word for word in words):  # no text here can have it
            nothing = "1 = 0"
            return FoundRuns(tables="runs", key="key", condition=nothing, values=(), check=nothing, check_values=())
        checks, check_values = [], []
        for word in words:
            tests = [_BEGINS] if len(word) < PART_CHARACTERS_MIN else [_BEGINS, _CONTAINS]
            checks.append(_HAS_WORD.format(test=f"({' OR '.join(tests)})"))
            check_values += [word] * len(tests)
        return FoundRuns(
            tables="run_texts CROSS JOIN runs",
            key="run_texts.run",
            condition="letters @> ? AND runs.key = run_texts.run",
            values=(sorted({letters for word in words for letters in _searched(word)}),),
            check=" AND ".join(checks),
            check_values=tuple(check_values),
        )

    def read_changes(self, reader: Reader, *, after: str | None, since: int, limit: int) -> ChangePage:
        """Return what any process stored after a position, in order."""
        return read_changes(reader, after=after, since=since, limit=limit)


def _letters_of(word: str) -> Iterator[str]:
    """Yield the letters under which a run with this word is found."""
    for count in range(1, PART_CHARACTERS_MIN + 1):
        yield _MARK + word[:count]
    generated = generated_id_in(word)
    yield from _parts(generated[:RUN_ID_TIME_CHARACTERS])  # ids with one beginning were made at about one time
    yield from _parts(word[len(generated) :])


def _searched(word: str) -> Iterator[str]:
    """Yield letters that every run has in which a word is found."""
    if len(word) < PART_CHARACTERS_MIN:
        yield _MARK + word
    yield from _parts(word[:RUN_ID_TIME_CHARACTERS] if word.startswith("r_") else word)


def _parts(text: str) -> Iterator[str]:
    for place in range(len(text) - PART_CHARACTERS_MIN + 1):
        yield text[place : place + PART_CHARACTERS_MIN]

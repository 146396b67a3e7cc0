"""The text index in the SQLite file: which runs have a word in their id, their workflow's name or their labels.

It is a trigram index: for every three consecutive letters it has a list of runs in the order of their keys. A search
for a part of a word takes the runs that are in the lists of its trigrams, newest first, and checks them: the lists may
return a few runs too many, never too few. Words start with a mark, so that the start of a word can be searched with
fewer letters. Ids, names and labels do not change, so a run is indexed once.

Above it: `index`. Below it: SQLite's FTS5; `tables.search_rules` defines what matches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice

from penstock.base.ids import RUN_ID_TIME_CHARACTERS
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.stores.sqlite.schema.sql_functions import WORD_MARK
from penstock.runtime.tables.search_rules import PART_CHARACTERS_MIN, run_words

__all__ = ["is_indexed", "match_query"]

# Lists that a query walks at once. More lists hardly narrow the result.
_LISTS_MAX = 6
_FEW = 100


def match_query(connection: sqlite3.Connection, words: Iterable[str]) -> str:
    """The query for runs that may have all of the words. It returns few others."""
    found = list(islice({letters: None for word in words for letters in _letters(word)}, _LISTS_MAX))
    rarest, fewest = "", _FEW
    for letters in found:
        count = _counted(connection, letters)
        if count < fewest:
            rarest, fewest = letters, count
        if not count:
            break
    # A short list is quick to walk and check. With long ones, only runs that are in all of them are worth checking.
    return _quoted(rarest) if rarest else _all_of(found)


def _letters(word: str) -> Iterator[str]:
    """The trigrams under which a run with this word is listed, as few as cover the word."""
    if word.startswith("r_"):
        word = word[:RUN_ID_TIME_CHARACTERS]  # only this part of a generated id is indexed
    word = (WORD_MARK * (PART_CHARACTERS_MIN - len(word)) + word).replace("\0", WORD_MARK)
    yield word[-PART_CHARACTERS_MIN:]
    for place in range(0, len(word) - PART_CHARACTERS_MIN, PART_CHARACTERS_MIN):
        yield word[place : place + PART_CHARACTERS_MIN]


def _counted(connection: sqlite3.Connection, letters: str) -> int:
    statement = "SELECT count(*) FROM (SELECT 1 FROM runs_text WHERE runs_text MATCH ? LIMIT ?)"
    (count,) = connection.execute(statement, (_quoted(letters), _FEW)).fetchone()
    return int(count)


def _all_of(found: Iterable[str]) -> str:
    return " AND ".join(map(_quoted, islice(found, _LISTS_MAX)))


def _quoted(text: str) -> str:
    inside = text.replace('"', '""')
    return f'"{inside}"'


def is_indexed(connection: sqlite3.Connection, key: int, row: RunRow) -> bool:
    """True if a search finds a run by its words."""
    held = run_words(row.tenant, row.run_id, row.workflow_name, row.labels.values())
    found = {letters: None for word in held for letters in _letters(word)}
    statement = "SELECT 1 FROM runs_text WHERE runs_text MATCH ? AND rowid = ?"
    return not found or connection.execute(statement, (_all_of(found), key)).fetchone() is not None

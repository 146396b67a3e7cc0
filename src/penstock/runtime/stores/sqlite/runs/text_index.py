"""The text index in the SQLite file: which runs have a word in their id, their workflow's name or their labels.

It is a trigram index: for every three consecutive letters it has a list of runs in the order of their keys. A search
for a part of a word takes the runs that are in the lists of its trigrams, newest first, and checks them: the lists may
return a few runs too many, never too few. Words start with a mark, so that the start of a word can be searched with
fewer letters. Ids, names and labels do not change, so a run is indexed once.

Above it: `appending`, `listing`. Below it: SQLite's FTS5; `rules.search` defines what matches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter

from penstock.base.ids import RUN_ID_TIME_CHARACTERS
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.stores.sqlite.schema.sql_functions import WORD_MARK
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.search_rules import PART_CHARACTERS_MIN, run_words

__all__ = ["TextIndexQueue", "is_indexed", "match_query"]

# Lists that a query walks at once. More lists hardly narrow the result.
_LISTS_MAX = 6
_FEW = 100
# One statement for all of them: a thread has to compete for the interpreter lock after each statement.
_GIVEN = "json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
_ADD = f"INSERT INTO runs_text (rowid, text) SELECT {_GIVEN}"
_FORGET = f"INSERT INTO runs_text (runs_text, rowid, text) SELECT 'delete', {_GIVEN}"


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


class TextIndexQueue:
    """Changes of the index that wait for the end of their transaction.

    FTS5 sorts new entries into its lists when the transaction ends, but also before any statement that may have to be
    undone alone. Entries added between such statements would be sorted in one by one, which costs many times as much as
    a batch.
    """

    def __init__(self) -> None:
        self._changes: list[tuple[str, int, str]] = []

    def add(self, key: int, text: str) -> None:
        """Make a run findable by its text."""
        self._changes.append((_ADD, key, text))

    def forget(self, key: int, text: str) -> None:
        """Remove a run from the index. The text must be the one that was indexed."""
        self._changes.append((_FORGET, key, text))

    def clear(self) -> None:
        """Start a transaction, whatever the outcome of the last one."""
        self._changes.clear()

    def write(self, connection: sqlite3.Connection) -> None:
        """Write every change of a transaction that is about to be committed."""
        if not self._changes:
            return
        for statement, changes in groupby(self._changes, key=itemgetter(0)):
            given = [(key, text) for _, key, text in changes]
            connection.execute(statement, (encode_json(given).decode(),))
        # This makes the index sort everything in now. If the commit did it, a failure would end the transaction, and
        # could not be distinguished from a failure after the commit.
        connection.execute("SAVEPOINT sorted_in")

"""Changes of the text index that wait for the end of their transaction.

Above it: `transaction`. Below it: SQLite's FTS5; `runs.text_index` searches what this writes.
"""

from __future__ import annotations

import sqlite3
from itertools import groupby
from operator import itemgetter

from penstock.runtime.tables.codec import encode_json

__all__ = ["TextIndexQueue"]

# One statement for all of them: a thread has to compete for the interpreter lock after each statement.
_GIVEN = "json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
_ADD = f"INSERT INTO runs_text (rowid, text) SELECT {_GIVEN}"
_FORGET = f"INSERT INTO runs_text (runs_text, rowid, text) SELECT 'delete', {_GIVEN}"


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

    def count(self) -> int:
        """Return how many changes wait."""
        return len(self._changes)

    def cut(self, count: int) -> None:
        """Drop the changes after the first ones: what made them was undone."""
        del self._changes[count:]

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

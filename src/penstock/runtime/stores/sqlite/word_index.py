"""The full-text index (FTS5) of the words of memory. Its content is the table `memory_entries` itself.

Above it: `database`. Below it: sqlite3.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.ports.transactions import Transaction

__all__ = ["MATCHES", "SqliteWordIndex"]

MATCHES = "entry IN (SELECT rowid FROM memory_text WHERE memory_text MATCH :words)"
"""The condition that an entry matches the query `:words`."""
_INDEXED = "entry, place, words FROM memory_entries WHERE entry = ?"
_ADD = f"INSERT INTO memory_text (rowid, place, words) SELECT {_INDEXED}"
_REMOVE = f"INSERT INTO memory_text (memory_text, rowid, place, words) SELECT 'delete', {_INDEXED}"


class SqliteWordIndex:
    """Changes the index in the transaction that changes the table."""

    def add(self, transaction: Transaction, entry: int) -> None:
        """Add an entry after it was inserted."""
        transaction.execute(_ADD, (entry,))

    def remove(self, transaction: Transaction, entry: int) -> None:
        """Remove an entry before it is deleted: the index needs the words that it has."""
        transaction.execute(_REMOVE, (entry,))

    def match_any(self, place: str, words: Sequence[str]) -> tuple[str, str]:
        """Return the condition for entries in a place with any of some words, and the query for it."""
        *whole, beginning = (f'"{word}"' for word in words)
        return MATCHES, f'place : "{place}" AND words : ({" OR ".join((*whole, f"{beginning} *"))})'

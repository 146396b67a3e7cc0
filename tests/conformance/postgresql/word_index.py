"""The words of memory, in a table of their own: each with the place of its entry, in the order of texts.

Above it: `database`. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.ports.transactions import Transaction

__all__ = ["PostgresWordIndex"]

_ADD = (
    "INSERT INTO memory_words (token, entry) SELECT DISTINCT place || ' ' || word, entry"
    " FROM memory_entries, unnest(string_to_array(words, ' ')) AS word WHERE entry = ?"
)
_REMOVE = "DELETE FROM memory_words WHERE entry = ?"
# A token has letters and digits only, and all of them sort before a tilde.
_MATCHES = (
    "entry IN (SELECT found.entry FROM unnest(string_to_array(:words, ',')) AS given (beginning)"
    " JOIN memory_words AS found ON found.token >= given.beginning AND found.token < given.beginning || '~')"
)


class PostgresWordIndex:
    """Finds words by their beginnings."""

    def add(self, transaction: Transaction, entry: int) -> None:
        """Add an entry after it was inserted."""
        transaction.execute(_ADD, (entry,))

    def remove(self, transaction: Transaction, entry: int) -> None:
        """Remove an entry before it is deleted."""
        transaction.execute(_REMOVE, (entry,))

    def match_any(self, place: str, words: Sequence[str]) -> tuple[str, str]:
        """Return the condition for entries in a place with any word that begins like one of these."""
        return _MATCHES, ",".join(f"{place} {word}" for word in words)

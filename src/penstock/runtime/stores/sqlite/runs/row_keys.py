"""Keys of runs in the SQLite file: made from the moment of creation, so that their order is the order of creation.

Listings come newest first from whichever index fits, and a span of time is a span of keys, with no index for either.

Above it: `store`, `listing`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from penstock.base.errors import Unavailable

__all__ = ["KEYS_PER_MS", "KEY_MAX", "KeyMaker", "first_key_of"]

# Runs that one millisecond has room for. With 2^20, keys stay within 63 bits until the year 2248.
KEYS_PER_MS: Final = 1 << 20
KEY_MAX: Final = (1 << 63) - 1
_INSTANT_MAX: Final = (1 << 43) - 1


def first_key_of(created_at: int) -> int:
    """The smallest key that a run created at a moment can have."""
    return min(max(created_at, 0), _INSTANT_MAX) * KEYS_PER_MS


class KeyMaker:
    """Makes the next key of a moment; used by one writer, inside its transactions."""

    def __init__(self) -> None:
        self._last = -1

    def next_key(self, connection: sqlite3.Connection, created_at: int) -> int:
        """A key that is free unless somebody else made runs in the same millisecond."""
        first = first_key_of(created_at)
        if first + KEYS_PER_MS - 1 < self._last:
            # The moment was before, and what was made in it may have left gaps: a run in one would seem too old.
            return self.free_key(connection, created_at)
        self._last = self._last + 1 if first <= self._last < first + KEYS_PER_MS - 1 else first
        return self._last

    def free_key(self, connection: sqlite3.Connection, created_at: int) -> int:
        """A key that is free, whoever else makes runs."""
        first = first_key_of(created_at)
        last = first + KEYS_PER_MS - 1
        (used,) = connection.execute("SELECT max(key) FROM runs WHERE key BETWEEN ? AND ?", (first, last)).fetchone()
        if used == last:
            raise Unavailable("STORE_FULL", f"there are {KEYS_PER_MS} runs of one millisecond", "check the clock")
        self._last = first if used is None else used + 1
        return self._last

"""Keys of runs. They are derived from the time of creation, so both have the same order.

Any index therefore returns runs newest first, and a time span is a range of keys. Neither needs an index of its own.

Above it: `appending`, `listing`. Below it: nothing.
"""

from __future__ import annotations

from typing import Final

from penstock.base.errors import Unavailable
from penstock.runtime.ports.transactions import Reader

__all__ = ["KEYS_PER_MS", "KEY_MAX", "KeyMaker", "first_key_of"]

# The number of runs that fit into one millisecond. With 2^20, keys stay within 63 bits until the year 2248.
KEYS_PER_MS: Final = 1 << 20
KEY_MAX: Final = (1 << 63) - 1
_INSTANT_MAX: Final = (1 << 43) - 1


def first_key_of(created_at: int) -> int:
    """The smallest key that a run created at a given time can have."""
    return min(max(created_at, 0), _INSTANT_MAX) * KEYS_PER_MS


class KeyMaker:
    """Generates the next key for a time. Two writers may get the same one; the statement that uses it finds out."""

    def __init__(self) -> None:
        self._last = -1

    def next_key(self, reader: Reader, created_at: int) -> int:
        """A key that is free unless another process created runs in the same millisecond."""
        first = first_key_of(created_at)
        if first + KEYS_PER_MS - 1 < self._last:
            # The time is in the past and its keys may have gaps. A run in a gap would appear older than it is.
            return self.free_key(reader, created_at)
        self._last = self._last + 1 if first <= self._last < first + KEYS_PER_MS - 1 else first
        return self._last

    def free_key(self, reader: Reader, created_at: int) -> int:
        """A key that is free even if other processes create runs."""
        first = first_key_of(created_at)
        last = first + KEYS_PER_MS - 1
        found = reader.one("SELECT max(key) FROM runs WHERE key BETWEEN ? AND ?", (first, last))
        used = None if found is None else found[0]
        if used == last:
            raise Unavailable("STORE_FULL", f"there are {KEYS_PER_MS} runs of one millisecond", "check the clock")
        self._last = first if used is None else used + 1
        return self._last

"""A cache of a bounded number of values that drops the least recently used one.

It does what `cachetools.LRUCache` does and is about three times as fast, because it is one `OrderedDict` and nothing
else; authentication looks into two of these for every request. Values are never updated in place: a key must contain
everything that its value depends on.

Above it: the gate, the tables of webhooks and of MCP tools. Below it: nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["CurrentValues", "LruCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the most recently used values. None cannot be a value."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if it was never stored or was dropped."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Store a value, and drop the least recently used one if there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._entries_max:
            self._values.popitem(last=False)


class CurrentValues(Generic[K, V]):
    """Values that were read from a store, for as long as its mark stays the same."""

    def __init__(self, read_mark: Callable[[], Hashable], entries_max: int) -> None:
        self._read_mark = read_mark
        self._entries_max = entries_max
        self._mark: Hashable = None
        self._values: LruCache[K, V] = LruCache(entries_max)

    def at_hand(self) -> LruCache[K, V]:
        """Return the values that still hold. Ask before you read something, and put it there afterwards.

        If the store changes in the meantime, it is put into a cache that nobody asks any more.
        """
        mark = self._read_mark()
        if mark != self._mark:
            self._mark = mark
            self._values = LruCache(self._entries_max)
        return self._values

"""Values that were made recently and may be wanted again, a bounded number of them.

Above it: `context` keeps these for operations. Below it: nothing. What is kept under a key never changes; whoever makes
a key puts everything into it that the value depends on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps the values that were used last."""

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of a key, if it is still there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; the one that was not used for longest goes."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._entries_max:
            self._values.popitem(last=False)

"""A database whose writes can be made to fail, for tests of what a host does then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.runtime.ports.database import is_change
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase

__all__ = ["FailingDatabase"]

Item = TypeVar("Item")
T = TypeVar("T")


class FailingDatabase(TemporaryDatabase):
    """A temporary file. What is called before an append, or before any other write, may raise its error."""

    def __init__(
        self, before_append: Callable[[], None] = lambda: None, *, before_write: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self.before_append, self.before_write = before_append, before_write

    def write(
        self,
        change: Callable[[Transaction], T],
        *,
        call: CallRecord | None = None,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
    ) -> Awaitable[T]:
        """Fail before the transaction, or make the change."""
        self.before_write()
        return super().write(change, call=call, happened=happened, is_long=is_long)

    def write_together(
        self, kind: Callable[[Transaction, list[Item]], list[T]], item: Item, *, call: CallRecord | None = None
    ) -> Awaitable[T]:
        """Fail before the transaction, or store the item."""
        self.before_append()
        return super().write_together(kind, item, call=call)

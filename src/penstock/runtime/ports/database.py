"""The database port: one transaction, in which a change, its audit record, its answer and its quota are rows.

A driver does what differs between databases: connections, batching of commits, locks, and the meaning of errors.

Above it: `runtime.tables`. Below it: drivers in `runtime.stores`; `tests/conformance` defines what they must do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from penstock.base.errors import Unavailable
from penstock.runtime.ports.memory import Erasure, MemoryFull, WordIndex
from penstock.runtime.ports.platform import CallRecord, KeyNotReplaced, ResourceChanged
from penstock.runtime.ports.run_index import RunIndex
from penstock.runtime.ports.runs import DefinitionChanged, DefinitionNameTaken, DefinitionRefused, SequenceConflict
from penstock.runtime.ports.set_aside import SetAside
from penstock.runtime.ports.topics import ChangeReader
from penstock.runtime.ports.transactions import Reader, Row, Transaction, Values

__all__ = ["Database", "is_change"]

Item = TypeVar("Item")
T = TypeVar("T")
_REFUSALS = (
    DefinitionChanged,
    DefinitionNameTaken,
    DefinitionRefused,
    KeyNotReplaced,
    MemoryFull,
    ResourceChanged,
    SequenceConflict,
)


def is_change(outcome: object) -> bool:
    """Whether an outcome means that something changed, so that its call has something to record."""
    return outcome is not False and not isinstance(outcome, _REFUSALS)


class Database(ChangeReader, Protocol):
    """An open database. When a write returns, its effect is stored; when it raises, nothing was."""

    async def open(self) -> None:
        """Prepare the database; refuse one that a newer release wrote."""

    async def close(self) -> None:
        """Finish the work in progress and release all resources."""

    async def read(self, query: Callable[[Reader], T], *, is_short: bool = False, is_long: bool = False) -> T:
        """Run several statements in one snapshot.

        A short query reads a bounded number of adjacent rows, and costs microseconds. A long one holds up no other.
        """

    async def rows(self, statement: str, values: Values = (), *, is_short: bool = False) -> list[Row]:
        """Return all rows of one statement."""

    async def one(self, statement: str, values: Values = ()) -> Row | None:
        """Return the first row of a statement that finds it by an index. It costs microseconds."""

    def write(
        self,
        change: Callable[[Transaction], T],
        *,
        call: CallRecord | None = None,
        happened: Callable[[T], bool] = is_change,
        is_long: bool = False,
    ) -> Awaitable[T]:
        """Make a change, and store the record of the call that makes it: both or neither.

        Returns at once; done when it is durable. The change is made whether the caller waits for it or not.

        `change` has no effect outside the transaction. It may run on any thread, and again after a rollback.
        `happened` says whether an outcome means a change, which is recorded. A long change holds up
        the event loop no longer than others.
        """

    def write_together(
        self, kind: Callable[[Transaction, list[Item]], list[T]], item: Item, *, call: CallRecord | None = None
    ) -> Awaitable[T]:
        """Make a frequent change, like `write`. Consecutive items of one kind are written by one call, if they can be.

        If that call raises `NotTogetherError`, its changes are undone and it is repeated for each item alone.
        """

    @property
    def damage(self) -> Unavailable | None:
        """What is known to be wrong with the database since it was opened. No run is started in a damaged one."""

    @property
    def set_aside(self) -> SetAside:
        """What could not be deleted since the database was opened."""

    @property
    def run_index(self) -> RunIndex:
        """The index of runs by text, and the order of commits."""

    @property
    def word_index(self) -> WordIndex:
        """How this database finds words."""

    @property
    def erasure(self) -> Erasure:
        """How this database overwrites what was deleted."""

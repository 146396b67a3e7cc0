"""Transactions and reads on a database, as SQL sees them.

SQL is written once, in `runtime.tables`, and runs on every database. Statements mark values with `?` or `:name`.

Above it: `runtime.tables`, `database`. Below it: drivers in `runtime.stores`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

__all__ = [
    "NotTogetherError",
    "Reader",
    "Row",
    "RowError",
    "StatementError",
    "Transaction",
    "Values",
    "any_of",
    "none_of",
]

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Sequence[object] | Mapping[str, object]


class NotTogetherError(Exception):
    """Some items cannot be written in one call with the others. Writing each alone shows which ones, and why."""


class RowError(Exception):
    """Rows of a statement are damaged, or something refuses to change them. The database itself is well."""

    def __init__(self, message: str, *, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal
        """Whether a constraint or a trigger refuses the change."""


class StatementError(Exception):
    """A statement does not fit the tables that are there."""


class Reader(Protocol):
    """Reads rows. Statements raise `RowError`, `StatementError`, or errors of the driver about the whole database."""

    def rows(self, statement: str, values: Values = ()) -> list[Row]:
        """Return all rows of a statement."""

    def one(self, statement: str, values: Values = ()) -> Row | None:
        """Return the first row of a statement, or None."""


class Transaction(Reader, Protocol):
    """An open transaction: what it does is stored together, or not at all."""

    def execute(self, statement: str, values: Values = ()) -> int:
        """Run a statement, and return how many rows it changed."""

    def many(self, statement: str, values: Iterable[Values]) -> int:
        """Run a statement once for each of the values, and return how many rows it changed in all."""

    def lock(self, name: str) -> None:
        """Wait until no other transaction holds this lock, and hold it until the end.

        A function that reads before it writes takes a lock, or writes with a condition. Take several locks in the order
        of their names, those of audit trails last.
        """

    def undo_on_error(self) -> AbstractContextManager[None]:
        """Undo what the block did if it raises, so that the transaction can continue."""


def any_of(column: str, values: Sequence[object]) -> str:
    """Return the condition that a column has one of some values, which are given where it stands."""
    return f"{column} IN ({','.join('?' * len(values))})" if values else "1 = 0"


def none_of(column: str, values: Sequence[object]) -> str:
    """Return the condition that a column has none of some values, which are given where it stands."""
    return f"{column} NOT IN ({','.join('?' * len(values))})" if values else "1 = 1"

"""Rows that cannot be deleted: they are set aside, so that they hold up nothing else.

A row may be damaged, or something may refuse its deletion. Retention deletes many rows in one transaction. If that
fails, each row is tried alone, and those that fail are passed over until the database is opened again. An error of the
whole database, such as a full disk, is no reason to set anything aside.

Above it: the tables that delete what is past its time. Below it: `transactions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from penstock.base import limits
from penstock.base.errors import CorruptHistory
from penstock.runtime.ports.transactions import RowError, Transaction

__all__ = ["UNUSABLE", "ExpiredRows", "SetAside"]

UNUSABLE = (RowError, ValueError, TypeError, KeyError, CorruptHistory)
"""What is raised if the reason is a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRows:
    """Rows of a table that are past their time, as SQL."""

    table: str
    key: tuple[str, ...]
    """The columns that identify a row."""
    condition: str
    parameters: tuple[int, ...]
    order: str = ""
    """Which of them come first, and how many."""
    order_parameters: tuple[int, ...] = ()
    is_each_alone: bool = False
    """Whether each row is deleted alone, in this order: if others change several of them in one transaction, too."""


class SetAside:
    """What could not be deleted: by kind, each with the reason."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, str]] = {}

    def rows(self) -> Mapping[str, Mapping[str, str]]:
        """Return the names of the rows by kind, each with the reason. Safe to call from any thread."""
        return {kind: dict(found) for kind, found in self._rows.copy().items()}

    def clear(self) -> None:
        """Try everything again: the database was opened again."""
        self._rows.clear()

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the names of one kind."""
        return tuple(self._rows.get(kind, ()))

    def has(self, kind: str, name: str) -> bool:
        """Whether a row was set aside."""
        return name in self._rows.get(kind, ())

    def add(self, kind: str, name: str, error: Exception) -> None:
        """Set a row aside; raise the error if there are too many of them to be single damaged rows."""
        found = self._rows.setdefault(kind, {})
        if len(found) >= limits.RETENTION_SET_ASIDE_MAX:
            raise error
        found[name] = str(error)[: limits.RETENTION_REASON_CHARACTERS_MAX]

    def delete_each(
        self, transaction: Transaction, kind: str, names: Iterable[str], delete: Callable[[str], int]
    ) -> int:
        """Delete rows in a transaction, and return how many; set those aside that cannot be deleted."""
        listed = [name for name in names if not self.has(kind, name)]
        try:
            with transaction.undo_on_error():
                return sum(map(delete, listed))
        except UNUSABLE:
            return sum(self.attempt(transaction, kind, name, partial(delete, name)) for name in listed)

    def delete_expired(self, transaction: Transaction, kind: str, expired: ExpiredRows) -> int:
        """Delete rows, and return how many: with one statement or, if that fails, each alone, as `delete_each` does."""
        key, aside = ", ".join(expired.key), [json.loads(name) for name in self.names(kind)]
        is_row = " AND ".join(f"{column} = ?" for column in expired.key)
        kept = f" AND NOT ({' OR '.join([f'({is_row})'] * len(aside))})" if aside else ""
        chosen = f"FROM {expired.table} WHERE {expired.condition}{kept} {expired.order}"
        given = (*expired.parameters, *(value for row in aside for value in row), *expired.order_parameters)
        # A row that another transaction changes meanwhile is compared again, but not chosen again.
        delete = f"DELETE FROM {expired.table} WHERE ({key}) IN (SELECT {key} {chosen}) AND ({expired.condition})"
        if not expired.is_each_alone:
            with suppress(*UNUSABLE), transaction.undo_on_error():
                return transaction.execute(delete, (*given, *expired.parameters))
        found = [json.dumps(row) for row in transaction.rows(f"SELECT {key} {chosen}", given)]
        one = f"DELETE FROM {expired.table} WHERE {is_row} AND ({expired.condition})"
        return self.delete_each(
            transaction,
            kind,
            found,
            lambda name: transaction.execute(one, (*json.loads(name), *expired.parameters)),
        )

    def attempt(self, transaction: Transaction, kind: str, name: str, delete: Callable[[], int]) -> int:
        """Delete one thing in a transaction, and return how much; set it aside if that fails."""
        try:
            with transaction.undo_on_error():
                return delete()
        except UNUSABLE as error:
            self.add(kind, name, error)
            return 0

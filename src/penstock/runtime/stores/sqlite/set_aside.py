"""Rows that cannot be deleted: they are set aside, so that they hold up nothing else.

A row may be damaged, or something may refuse its deletion. Whatever deletes what is past its time deletes many rows in
one transaction. If that fails, each row is tried alone, and those that fail are passed over until the file is opened
again. An error that concerns the whole file, such as a full disk, is no reason to set anything aside.

Above it: the stores that delete what is past its time. Below it: `errors`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from penstock.base import limits
from penstock.runtime.stores.sqlite.errors import concerns_row

__all__ = ["ExpiredRows", "SetAside", "undone_if_it_fails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRows:
    """Rows of a table that are past their time, as SQL."""

    table: str
    key: str
    """The columns that identify a row."""
    condition: str
    parameters: tuple[int, ...]
    order: str = ""
    """Which of them are first, and how many."""
    order_parameters: tuple[int, ...] = ()


class SetAside:
    """What could not be deleted: by kind, each with the reason."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, str]] = {}

    def rows(self) -> Mapping[str, Mapping[str, str]]:
        """Return the names of the rows by kind, each with the reason. Safe to call from any thread."""
        return {kind: dict(found) for kind, found in self._rows.copy().items()}

    def clear(self) -> None:
        """Try everything again: the file was opened anew."""
        self._rows.clear()

    def names(self, kind: str) -> str:
        """Return the names of one kind as a JSON list, for `NOT IN (SELECT value FROM json_each(?))`."""
        return json.dumps(list(self._rows.get(kind, ())))

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
        self, connection: sqlite3.Connection, kind: str, names: Iterable[str], delete: Callable[[str], int]
    ) -> int:
        """Delete rows in the current transaction, and return how many; set those aside that cannot be deleted."""
        listed = [name for name in names if not self.has(kind, name)]
        try:
            with undone_if_it_fails(connection):
                return sum(map(delete, listed))
        except Exception as error:
            if not concerns_row(error):
                raise
        return sum(self.attempt(connection, kind, name, partial(delete, name)) for name in listed)

    def delete_expired(self, connection: sqlite3.Connection, kind: str, expired: ExpiredRows) -> int:
        """Delete rows with one statement, and return how many; if that fails, each alone, as `delete_each` does."""
        table, key, condition = expired.table, expired.key, expired.condition
        chosen = (
            f"FROM {table} WHERE {condition} AND json_array({key}) NOT IN (SELECT value FROM json_each(?))"
            f" {expired.order}"
        )
        given = (*expired.parameters, self.names(kind), *expired.order_parameters)
        try:
            with undone_if_it_fails(connection):
                return connection.execute(
                    f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} {chosen})", given
                ).rowcount
        except Exception as error:
            if not concerns_row(error):
                raise
        found = [name for (name,) in connection.execute(f"SELECT json_array({key}) {chosen}", given)]
        one = f"DELETE FROM {table} WHERE {condition} AND json_array({key}) = ?"
        return self.delete_each(
            connection, kind, found, lambda name: connection.execute(one, (*expired.parameters, name)).rowcount
        )

    def attempt(self, connection: sqlite3.Connection, kind: str, name: str, delete: Callable[[], int]) -> int:
        """Delete one thing in the current transaction, and return how much; set it aside if that fails."""
        try:
            with undone_if_it_fails(connection):
                return delete()
        except Exception as error:
            if not concerns_row(error):
                raise
            self.add(kind, name, error)
            return 0


@contextmanager
def undone_if_it_fails(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo what the block did in the current transaction if it raises."""
    connection.execute("SAVEPOINT set_aside")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite itself ends the transaction after the most serious errors
            connection.execute("ROLLBACK TO set_aside")
            connection.execute("RELEASE set_aside")
        raise
    connection.execute("RELEASE set_aside")

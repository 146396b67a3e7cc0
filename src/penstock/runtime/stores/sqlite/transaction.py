"""Statements on a connection to an SQLite file, as the database port has them.

The file has one writer, so its transactions need no locks.

Above it: `database`. Below it: sqlite3, `errors`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from penstock.runtime.ports.transactions import Row, RowError, StatementError, Values
from penstock.runtime.stores.sqlite.errors import concerns_row, is_of_constraint, is_of_statement
from penstock.runtime.stores.sqlite.run_texts import TextIndexQueue

__all__ = ["SqliteTransaction", "cause_of"]


class SqliteTransaction:
    """Reads and writes on one connection, in the transaction that is open there. Each transaction has an object."""

    __slots__ = ("__weakref__", "connection", "run_texts")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.run_texts = TextIndexQueue()
        """Changes of the text index, which are written at the end."""

    def finish(self) -> None:
        """Write what was left for the end of the transaction."""
        self.run_texts.write(self.connection)

    def rows(self, statement: str, values: Values = ()) -> list[Row]:
        """All rows of a statement."""
        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _as_port_error(error) from error

    def one(self, statement: str, values: Values = ()) -> Row | None:
        """The first row of a statement."""
        # Fetch the whole result: an unfinished statement would keep this snapshot of the file open.
        found = self.rows(statement, values)
        return found[0] if found else None

    def execute(self, statement: str, values: Values = ()) -> int:
        """Run a statement, and return how many rows it changed."""
        try:
            return self.connection.execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise _as_port_error(error) from error

    def many(self, statement: str, values: Iterable[Values]) -> int:
        """Run a statement for each of the values, and return how many rows it changed in all."""
        try:
            return max(self.connection.executemany(statement, values).rowcount, 0)
        except sqlite3.Error as error:
            raise _as_port_error(error) from error

    def lock(self, name: str) -> None:
        """Do nothing: no other transaction writes before this one has ended."""

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Undo what the block did if it raises."""
        connection, texts = self.connection, self.run_texts.count()
        connection.execute("SAVEPOINT undo_on_error")
        try:
            yield
        except BaseException as error:
            self.run_texts.cut(texts)
            if connection.in_transaction:  # SQLite itself ends the transaction after the most serious errors
                connection.execute("ROLLBACK TO undo_on_error")
                connection.execute("RELEASE undo_on_error")
            if isinstance(error, sqlite3.Error):
                raise _as_port_error(error) from error
            raise
        connection.execute("RELEASE undo_on_error")


def _as_port_error(error: sqlite3.Error) -> Exception:
    if is_of_statement(error):
        return StatementError(str(error))
    return RowError(str(error), is_refusal=is_of_constraint(error)) if concerns_row(error) else error


def cause_of(error: Exception) -> Exception:
    """Return the error of SQLite behind an error of the port; any other error as it is."""
    is_of_port = isinstance(error, RowError | StatementError)
    return error.__cause__ if is_of_port and isinstance(error.__cause__, sqlite3.Error) else error

"""Statements on a connection to PostgreSQL, as the database port has them.

Transactions are READ COMMITTED. Functions that read before they write hold a lock, or write with a condition.

Above it: `database`, `writer`. Below it: `statements`, `errors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg

from penstock.runtime.ports.transactions import Row, RowError, StatementError, Values
from tests.conformance.postgresql.connections import Connection, Cursor
from tests.conformance.postgresql.errors import as_port_error
from tests.conformance.postgresql.statements import arguments, numbered

__all__ = ["LOCK", "PostgresSnapshot", "PostgresTransaction"]

LOCK = b"SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"


_BEGIN = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresTransaction:
    """Reads and writes on one connection, in the transaction that is open there. Each transaction has an object."""

    __slots__ = ("__weakref__", "_connection")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Values = ()) -> list[Row]:
        """Return all rows of a statement."""
        cursor = self._run(statement, values)
        return cursor.fetchall() if cursor.description is not None else []

    def one(self, statement: str, values: Values = ()) -> Row | None:
        """Return the first row of a statement, or None."""
        found = self.rows(statement, values)
        return found[0] if found else None

    def execute(self, statement: str, values: Values = ()) -> int:
        """Run a statement, and return how many rows it changed."""
        return self._run(statement, values).rowcount

    def many(self, statement: str, values: Iterable[Values]) -> int:
        """Run a statement once for each of the values, and return how many rows it changed in all."""
        query, names = numbered(statement)
        given = [arguments(names, item) for item in values]
        if not given:
            return 0
        try:
            cursor = self._connection.cursor()
            cursor.executemany(query, given)
        except psycopg.Error as error:
            raise as_port_error(error) from error
        return max(cursor.rowcount, 0)

    def lock(self, name: str) -> None:
        """Wait until no other transaction holds this lock, and hold it until the end."""
        try:
            self._connection.execute(LOCK, [name])
        except psycopg.Error as error:
            raise as_port_error(error) from error

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Undo what the block did if it raises, so that the transaction can continue."""
        connection = self._connection
        connection.execute("SAVEPOINT undo_on_error")
        try:
            yield
        except BaseException as error:
            if not connection.closed:
                connection.execute("ROLLBACK TO undo_on_error")
                connection.execute("RELEASE undo_on_error")
            if isinstance(error, psycopg.Error):
                raise as_port_error(error) from error
            raise
        connection.execute("RELEASE undo_on_error")

    def _run(self, statement: str, values: Values) -> Cursor | psycopg.Cursor[Row]:
        query, names = numbered(statement)
        try:
            return self._connection.execute(query, arguments(names, values))
        except psycopg.Error as error:
            raise as_port_error(error) from error


class PostgresSnapshot(PostgresTransaction):
    """Reads in one snapshot. Reads that continue after an error have a new one: PostgreSQL ends the first."""

    __slots__ = ()

    def __enter__(self) -> PostgresSnapshot:
        self._connection.execute(_BEGIN)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._connection.closed:
            self._connection.execute("ROLLBACK")

    def _run(self, statement: str, values: Values) -> Cursor | psycopg.Cursor[Row]:
        try:
            return super()._run(statement, values)
        except (RowError, StatementError):
            self._connection.execute("ROLLBACK")
            self._connection.execute(_BEGIN)
            raise

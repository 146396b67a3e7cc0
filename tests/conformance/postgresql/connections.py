"""Connections to PostgreSQL, on which our values are what they are in SQLite: truth is a number, and so is a sum.

Above it: `database`, `writer`, `topics`. Below it: psycopg.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.rows import TupleRow

__all__ = ["Connection", "Connections", "Cursor"]

Connection: TypeAlias = psycopg.Connection[TupleRow]
Cursor: TypeAlias = psycopg.RawCursor[TupleRow]


class _NumberLoader(Loader):
    """Loads sums of integers as integers, and other numbers of any precision as floats."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


class _IntegerDumper(Dumper):
    """Sends integers without a type, and truth as 0 or 1: the server knows the type from the place.

    So a statement is prepared once, whatever its numbers are.
    """

    def dump(self, obj: Any) -> bytes:
        return b"%d" % obj


class Connections:
    """Opens connections, one for each thread that asks, and closes all of them at the end."""

    def __init__(self, address: str, *, lock_timeout_ms: int, cursor_type: type[Cursor]) -> None:
        self._address = address
        self._lock_timeout_ms = lock_timeout_ms
        self._cursor_type = cursor_type
        self._local = threading.local()
        self._opened: list[Connection] = []

    def new(self, *, autocommit: bool) -> Connection:
        """Open a connection. Without `autocommit`, its first statement begins a transaction."""
        connection = self._connect(autocommit=autocommit, lock_timeout_ms=self._lock_timeout_ms)
        self._opened.append(connection)
        return connection

    @contextmanager
    def brief(self, *, lock_timeout_ms: int) -> Iterator[Connection]:
        """Open a connection for a few single statements, and close it."""
        connection = self._connect(autocommit=True, lock_timeout_ms=lock_timeout_ms)
        try:
            yield connection
        finally:
            connection.close()

    def _connect(self, *, autocommit: bool, lock_timeout_ms: int) -> Connection:
        options = f"-c lock_timeout={lock_timeout_ms} -c timezone=UTC"
        connection = psycopg.connect(self._address, autocommit=autocommit, options=options)
        connection.cursor_factory = self._cursor_type
        for integer in (int, bool):
            connection.adapters.register_dumper(integer, _IntegerDumper)
        connection.adapters.register_loader("numeric", _NumberLoader)
        return connection

    def of_thread(self) -> Connection:
        """Return the connection of this thread, for single statements; a new one after it was lost."""
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None or found.closed:
            found = self._local.connection = self.new(autocommit=True)
        return found

    def close(self) -> None:
        """Close every connection that was opened."""
        for connection in self._opened:
            connection.close()
        self._opened.clear()

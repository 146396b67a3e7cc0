"""The databases under test. A new driver takes part by an entry in `DATABASES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from penstock.runtime.ports.database import Database
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from tests.conformance.postgresql.database import PostgresDatabase

__all__ = ["DATABASES", "emptied_postgres", "empty", "on_sqlite"]


def emptied_postgres(address: str, **options: Any) -> PostgresDatabase:
    """A database in PostgreSQL without rows, not open yet."""
    with psycopg.connect(address, autocommit=True) as connection:
        empty(connection)
    return PostgresDatabase(address, **options)


def empty(connection: psycopg.Connection[Any]) -> None:
    """Delete every row: a new database takes many times as long."""
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    connection.execute("; ".join(f"DELETE FROM {table}" for (table,) in tables).encode())


def on_sqlite(request: pytest.FixtureRequest) -> SqliteDatabase:
    """A database in a new SQLite file, not open yet."""
    return SqliteDatabase(request.getfixturevalue("tmp_path") / "store.db")


DATABASES: dict[str, Callable[[pytest.FixtureRequest], Database]] = {
    "sqlite": on_sqlite,
    "postgresql": lambda request: emptied_postgres(request.getfixturevalue("postgres_address")),
}

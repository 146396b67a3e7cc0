"""Every statement of the tables is standard: a real PostgreSQL can prepare it.

The tables there are those of the SQLite file, with the types that PostgreSQL has for them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.base.errors import PenstockError
from penstock.runtime.ports.transactions import Row, Values
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables import checks
from penstock.runtime.tables.checksums import CHECKED
from tests.conformance.families import CHANGES, FAMILIES, GIVEN, READS, function_of
from tests.conformance.platform_stores import open_sqlite
from tests.conformance.postgresql.statements import numbered
from tests.tidy.doors import CHANGING, READING

SET_ASIDE = (
    ("deliveries", '["acme", "d_7"]'),
    ("audit", "acme/7"),
    ("rates", '["b"]'),
    ("usage", '["acme", "s", 1]'),
    ("counted calls", "[1]"),
    ("answers", '["acme", "p", "o", "k"]'),
    ("memory", "7"),
    ("runs", "r_7"),
)
"""Rows of every kind that retention passes over."""
PROTECTED = ("calls", "usage_counts", "rate_buckets", "policy_uses", "deliveries", "audit", "memory_entries", "runs")
# What the SQLite driver has of its own: indexes of texts, the overwriting of what was deleted, and savepoints.
OF_DRIVER = ("memory_text", "memory_staging", "runs_text", "text_matches(", "history.rowid", "PRAGMA", "undo_on_error")


async def use_everything(database: SqliteDatabase) -> None:
    """Use every function of every family; some refuse, after what others did."""
    for call in (*GIVEN, *CHANGES.values(), *READS.values()):
        with suppress(PenstockError):
            await call(database)


async def protect(database: SqliteDatabase) -> None:
    """Let no row be deleted by retention: each is tried alone then."""
    for table in PROTECTED:
        trigger = f"CREATE TRIGGER kept_{table} BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'kept'); END"
        await database.write_raw(methodcaller("execute", trigger))


def recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every statement that the functions run: as they are, with rows set aside, and with rows that nobody deletes."""
    statements: set[str] = set()

    def recording(name: str) -> Callable[..., Any]:
        method = getattr(SqliteTransaction, name)

        def call(transaction: SqliteTransaction, statement: str, values: Values = ()) -> Any:
            statements.add(statement)
            return method(transaction, statement, values)

        return call

    async def scenario() -> None:
        for state in ("new", "set aside", "protected"):
            async with open_sqlite(path / f"{state}.db") as database:
                if state == "set aside":
                    for kind, name in SET_ASIDE:
                        database.set_aside.add(kind, name, ValueError("damaged"))
                if state == "protected":
                    await protect(database)
                await use_everything(database)

    for name in ("rows", "execute", "many"):
        monkeypatch.setattr(SqliteTransaction, name, recording(name))
    asyncio.run(scenario())
    return statements


def statements_of_checks() -> set[str]:
    """Every statement with which any database checks its rows."""
    statements: set[str] = set()

    def scan(statement: str) -> list[Row]:
        statements.add(statement)
        return []

    rows = chain.from_iterable(checks.changed_rows(scan, table, ()) for table in CHECKED)
    assert list(chain(rows, checks.other_versions(scan), checks.changed_names(scan))) == []
    return statements


def functions_of(calls: str) -> set[str]:
    return {function_of(name) for family in FAMILIES.values() for name in getattr(family, calls)}


def refused(connection: psycopg.Connection[Any], statements: set[str]) -> Iterator[tuple[str, str]]:
    """The statements that cannot be prepared, each with the reason."""
    for number, statement in enumerate(sorted(statements)):
        try:
            connection.execute(f"PREPARE s{number} AS {numbered(statement)[0].decode()}".encode())
        except psycopg.Error as error:
            yield statement, str(error).splitlines()[0]


def test_every_function_of_the_tables_is_used() -> None:
    assert functions_of("changes") >= CHANGING["Tables"] | CHANGING["Store"] | CHANGING["Definitions"]
    # These read nothing.
    others = {"open", "close", "changed", "clear_cache"}
    assert functions_of("reads") >= (READING["Tables"] | READING["Store"] | READING["Definitions"]) - others


def test_every_statement_can_be_prepared_on_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_address: str
) -> None:
    every = recorded(tmp_path, monkeypatch) | statements_of_checks()
    statements = {text for text in every if not any(name in text for name in OF_DRIVER)}
    assert len(statements) > len(CHANGES)
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        assert dict(refused(connection, statements)) == {}


def test_a_statement_that_only_sqlite_has_is_found(postgres_address: str) -> None:
    statement = "SELECT total(value) FROM json_each('[1]') WHERE 1 IS ?"
    connection = sqlite3.connect(":memory:")
    connection.execute(statement, (1,)).fetchall()
    connection.close()
    with psycopg.connect(postgres_address, autocommit=True) as connected:
        assert [found for found, _ in refused(connected, {statement})] == [statement]

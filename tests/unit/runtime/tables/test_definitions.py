"""Definitions of an SQLite file: read once, and never outdated."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base import limits
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import sqlite_of


def row(name: str, number: int, tenant: str = "default") -> DefinitionRow:
    hashed = f"{name}-{number}".ljust(64, "0")
    return DefinitionRow(
        hash=hashed, name=name, version="1.0.0", document={"number": number}, created_at=number, tenant=tenant
    )


def test_what_another_process_puts_or_deletes_is_seen_at_once(tmp_path: Path) -> None:
    async def body() -> None:
        ours, theirs = RunStore(SqliteDatabase(tmp_path / "a.db")), RunStore(SqliteDatabase(tmp_path / "a.db"))
        await ours.open()
        await theirs.open()
        try:
            assert await ours.definitions.find_named("pay") is None
            for number in range(3):
                await theirs.definitions.put(row("pay", number))
                for _ in range(2):
                    assert await ours.definitions.find_named("pay") == row("pay", number)
            await theirs.definitions.put(row("pay", 9, tenant="acme"))
            assert await ours.definitions.find_named("pay") == row("pay", 2)
            assert await ours.definitions.find_named("pay", tenant="acme") == row("pay", 9, tenant="acme")
            await theirs.definitions.delete("pay")
            assert await ours.definitions.find_named("pay") is None
            await theirs.definitions.put(row("pay", 0))
            assert await ours.definitions.find_named("pay") == row("pay", 0)
        finally:
            await theirs.close()
            await ours.close()

    asyncio.run(body())


def test_a_document_is_read_once_while_it_is_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEFINITIONS_KEPT_MAX", 2)

    async def body() -> None:
        store = RunStore(SqliteDatabase(tmp_path / "a.db"))
        await store.open()
        try:
            for name in ("one", "two", "three"):
                await store.definitions.put(row(name, 1))
            reads, read = [], sqlite_of(store).read_raw

            def counted(query: Callable[[sqlite3.Connection], Any]) -> Any:
                reads.append(query)
                return read(query)

            monkeypatch.setattr(store.database, "read_raw", counted)
            for expected, name in enumerate(("one", "two"), 1):
                for _ in range(3):
                    assert await store.definitions.find_named(name) == row(name, 1)
                assert len(reads) == expected
            assert await store.definitions.find_named("three") == row("three", 1)
            assert await store.definitions.find_named("one") == row("one", 1)
            assert len(reads) == 4  # the third took the place of the first
        finally:
            await store.close()

    asyncio.run(body())

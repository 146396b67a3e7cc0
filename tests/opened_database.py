"""Open databases and stores, for tests of what keeps rows in one. Import the fixture, and take `database`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.waiting import SECONDS_MAX

__all__ = ["database_fixture", "opened_store", "run_on", "sqlite_of"]

Store = TypeVar("Store", bound=RunStore)


@pytest.fixture(name="database")
async def database_fixture(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open database, without rows."""
    database = SqliteDatabase(tmp_path / "database.db", synchronous="OFF")
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def opened_store(store: Store) -> AsyncIterator[Store]:
    """Open a store for the length of a block, and close it."""
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def run_on(store: Store, body: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
    """Run async code on a store, which is open as long, and end it if it hangs."""

    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX), opened_store(store):
            await body(store)

    asyncio.run(run())


def sqlite_of(store: RunStore) -> SqliteDatabase:
    """The SQLite file of a store, for tests that look below the port."""
    assert isinstance(store.database, SqliteDatabase)
    return store.database

"""A database in a file, for tests of what keeps rows in one. Import the fixture, and take `database`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.runs.store import SqliteRunStore

__all__ = ["database_fixture"]


@pytest.fixture(name="database")
async def database_fixture(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open database, without rows."""
    store = SqliteRunStore(tmp_path / "database.db", synchronous="OFF")
    await store.open()
    try:
        yield store.database
    finally:
        await store.close()

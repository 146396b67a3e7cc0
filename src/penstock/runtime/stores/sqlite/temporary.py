"""A database that ends with its process: for tests of workflows, and for a host that keeps nothing."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.runtime.stores.sqlite.database import SqliteDatabase

__all__ = ["TemporaryDatabase"]


class TemporaryDatabase(SqliteDatabase):
    """A file in a folder of its own, which is deleted when the database is closed. Nothing waits for the disk."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="penstock-")
        super().__init__(Path(self._folder.name) / "penstock.db", synchronous="OFF")

    async def close(self) -> None:
        """Close and delete the file."""
        await super().close()
        self._folder.cleanup()

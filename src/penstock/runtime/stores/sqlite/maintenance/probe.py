"""Checks whether a store works now, by using it as the next caller would.

The probe reads with a new connection, which has no cached state of the file. It writes, unless something was written a
moment ago. It tries to write an audit record and rolls that back. A small file is checked for damage now and then; a
large one shows its damage when it is read.

Above it: `app.serving`, for `/readyz`. Below it: `database`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.schema.files import connect
from penstock.runtime.tables.audit.records import probe_audit

__all__ = ["StoreProbe"]


class StoreProbe:
    """Probes one store."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._checked_at: float | None = None

    async def check(self) -> None:
        """Raise the error that a caller would get if the store cannot be read or written."""
        if self._database.damage is not None:
            raise self._database.damage
        now = asyncio.get_running_loop().time()
        writer = self._database.writer
        last = writer.committed_at
        is_fresh = last is not None and now - last < limits.STORE_PROBE_SECONDS
        # The writer first, because it knows which files it writes to.
        await self._database.write_raw(_look if is_fresh else _no_op_write)
        await self._database.write(probe_audit)
        check = self._checked_at is None or now - self._checked_at >= limits.STORE_CHECK_SECONDS
        await self._database.read_raw(lambda _: self._read_afresh(check=check))
        if check:
            self._checked_at = now

    def _read_afresh(self, *, check: bool) -> None:
        path = self._database.path
        with closing(connect(path, mode="ro", busy_timeout_ms=limits.STORE_BUSY_TIMEOUT_MS)) as fresh:
            _look(fresh)
            if check and os.stat(path).st_size <= limits.STORE_CHECK_BYTES_MAX:
                (found,) = fresh.execute("PRAGMA quick_check(1)").fetchone()
                if found != "ok":
                    message = f"{path} is damaged"
                    hint = "restore a backup; `penstock server check` shows all of the damage"
                    raise self._database.note_damage(Unavailable("STORE_CORRUPT", message, hint))


def _look(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("SELECT run_id FROM runs LIMIT 1").fetchall()


def _no_op_write(connection: sqlite3.Connection) -> None:
    """Make a write that changes no data but still reaches the file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version:d}")

"""Whether a store can be used now: found out by using it, as the next caller would.

It is read with a new connection, which remembers nothing of how the file was, and written unless something was written
a moment ago; that an audit record could be written is tried and taken back. A small file is looked through for damage
now and then; a large one shows its damage when it is read.

Above it: `app.serving`, for `/readyz`. Below it: `store`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite.format.schema import connect
from penstock.runtime.stores.sqlite.platform.audit_log import probe_audit
from penstock.runtime.stores.sqlite.store import SqliteStore

__all__ = ["StoreProbe"]


class StoreProbe:
    """Looks at one store, however often it is asked."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._checked_at: float | None = None

    async def look(self) -> None:
        """Raises what a caller would be told of a store that cannot be read or written."""
        now = asyncio.get_running_loop().time()
        writer = self._store.writer
        last = writer.committed_at
        is_fresh = last is not None and now - last < limits.STORE_PROBE_SECONDS
        # First, because it knows which files it writes to.
        await writer.submit(_look if is_fresh else _write_nothing)
        await writer.submit(probe_audit)
        check = self._checked_at is None or now - self._checked_at >= limits.STORE_CHECK_SECONDS
        await self._store.read(lambda _: self._read_afresh(check=check))
        if check:
            self._checked_at = now

    def _read_afresh(self, *, check: bool) -> None:
        path = self._store.path
        with closing(connect(path, mode="ro", busy_timeout_ms=limits.STORE_BUSY_TIMEOUT_MS)) as fresh:
            _look(fresh)
            if check and os.stat(path).st_size <= limits.STORE_CHECK_BYTES_MAX:
                (found,) = fresh.execute("PRAGMA quick_check(1)").fetchone()
                if found != "ok":
                    message = f"{path} is damaged"
                    raise Unavailable(
                        "STORE_CORRUPT", message, "restore a backup; `penstock check` shows all of the damage"
                    )


def _look(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    connection.execute("SELECT run_id FROM runs LIMIT 1").fetchall()


def _write_nothing(connection: sqlite3.Connection) -> None:
    """A change that changes nothing, and is written all the same."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version:d}")

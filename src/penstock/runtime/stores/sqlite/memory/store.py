"""The memory store in the SQLite file.

It shares the database of a run store, so that a change and the audit record of its call are one transaction. A deletion
returns when the bytes are overwritten and out of the log. If that is too much at once, or another reader needs an older
state of the file, `forget` does it, which is called once a minute.

Above it: `app` and the conformance suite. Below it: `database`, `entries`, `erasing`.
"""

from __future__ import annotations

import json
import sqlite3

from penstock.base import limits
from penstock.runtime.ports.memory import MemoryEntry, MemoryOutcome, MemoryPage, MemoryPut, MemoryRoom, MemorySpace
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.memory import entries, erasing
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.codec import encode_json

__all__ = ["SqliteMemoryStore"]

_KIND = "memory"
_OVERWRITING = "overwriting of deleted entries"
"""What is named in the health of a server if a damaged entry keeps the bytes of deleted ones from being overwritten."""


class SqliteMemoryStore:
    """Memory in a database that a run store opens and closes."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._log_is_left = True  # the previous process may have left it

    async def put(
        self, space: MemorySpace, entry: MemoryEntry, *, room: MemoryRoom, call: CallRecord | None = None
    ) -> MemoryOutcome:
        """Store an entry. What it replaces is overwritten a little later."""
        value = encode_json(entry.value)

        def apply(connection: sqlite3.Connection) -> MemoryOutcome:
            outcome, replaced = entries.put_entry(connection, space, entry, value, room)
            if replaced:
                erasing.leave_remains(connection)
            return outcome

        return await self._database.writer.submit(
            apply, call=call, happened=lambda outcome: isinstance(outcome, MemoryPut)
        )

    async def get(self, space: MemorySpace, key: str, *, now: int) -> MemoryEntry | None:
        """The entry of a key."""
        return await self._database.read_raw(lambda connection: entries.read_entry(connection, space, key, now))

    async def list_entries(
        self, space: MemorySpace, *, now: int, limit: int, cursor: str | None = None, prefix: str = ""
    ) -> MemoryPage:
        """A page of entries."""
        return await self._database.read_raw(
            lambda connection: entries.list_entries(
                connection, space, now=now, limit=limit, cursor=cursor, prefix=prefix
            )
        )

    async def search(self, space: MemorySpace, text: str, *, now: int, limit: int) -> tuple[MemoryEntry, ...]:
        """Entries with words of a text."""
        return await self._database.read_raw(
            lambda connection: entries.search_entries(connection, space, text, now=now, limit=limit)
        )

    async def delete(self, space: MemorySpace, key: str, *, now: int, call: CallRecord | None = None) -> bool:
        """Erase the entry of a key."""

        def apply(connection: sqlite3.Connection) -> bool:
            found = entries.delete_entry(connection, space, key, now)
            _erase_after(connection, int(found))
            return found

        found = await self._database.writer.submit(apply, call=call, happened=bool, is_long=True)
        if found:
            await self._cut_log()
        return found

    async def clear(self, space: MemorySpace, *, now: int, call: CallRecord | None = None) -> int:
        """Erase all entries of a space."""

        def apply(connection: sqlite3.Connection) -> int:
            count = entries.clear_space(connection, space, now)
            _erase_after(connection, count)
            return count

        count = await self._database.writer.submit(apply, call=call, happened=bool, is_long=True)
        if count:
            await self._cut_log()
        return count

    async def forget(self, *, now: int, limit: int) -> int:
        """Erase entries that have ended, and what earlier deletions left."""

        def apply(connection: sqlite3.Connection) -> int:
            count = entries.forget_ended(connection, self._database.set_aside, now, limit)
            if count or erasing.is_left(connection):
                aside = self._database.set_aside
                if not aside.has(_KIND, _OVERWRITING):
                    aside.attempt(SqliteTransaction(connection), _KIND, _OVERWRITING, lambda: _overwrite(connection))
                self._log_is_left = True
            return count

        aside = json.dumps(self._database.set_aside.names(_KIND))
        if not await self._database.read_raw(lambda connection: _has_work(connection, now, aside)):
            count = 0
        else:
            count = await self._database.writer.submit(apply, is_long=True)
        if self._log_is_left:
            await self._cut_log()
        return count

    async def _cut_log(self) -> None:
        self._log_is_left = not await self._database.cut_log()


def _has_work(connection: sqlite3.Connection, now: int, aside: str) -> bool:
    ended = connection.execute(
        "SELECT 1 FROM memory_entries WHERE expires_at <= ?"
        " AND CAST(entry AS TEXT) NOT IN (SELECT value FROM json_each(?)) LIMIT 1",
        (now, aside),
    ).fetchone()
    return ended is not None or erasing.is_left(connection)


def _overwrite(connection: sqlite3.Connection) -> int:
    erasing.erase_remains(connection)
    return 1


def _erase_after(connection: sqlite3.Connection, deleted: int) -> None:
    """Overwrite what was deleted, at once if that does not take long."""
    if not deleted:
        return
    if entries.total_bytes(connection) <= limits.MEMORY_ERASED_AT_ONCE_BYTES_MAX:
        erasing.erase_remains(connection)
    else:
        erasing.leave_remains(connection)

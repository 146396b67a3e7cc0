"""Removes the bytes of deleted memory from the tables: after the commit, they are written anew without them.

A deleted row stays in its page until the page is cleaned, and some transaction may still see it. `VACUUM FULL` writes a
table into new files and deletes the old ones. It waits for all who use the table and lets nobody use it meanwhile, so
it gives up soon, and is tried again a minute later.

The log of the server has the bytes until the server writes over its files. Copies of it are not ours to change.

Above it: `database`. Below it: `connections`.
"""

from __future__ import annotations

import asyncio
import logging

import psycopg

from penstock.runtime.ports.transactions import Transaction
from tests.conformance.postgresql.connections import Connections

__all__ = ["PostgresErasure"]

_LOGGER = logging.getLogger("penstock.memory")
# Everybody who wants to read waits behind a vacuum that waits.
_LOCK_TIMEOUT_MS = 50
_XIDS = 1 << 32  # a snapshot has the lower half of a number only
_VACUUM = b"VACUUM FULL memory_entries, memory_words"
_DELETED_BY = "SELECT pg_current_xact_id()::text::bigint"
_BEGUN_BY_NOW = b"SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
# A vacuum leaves what an older snapshot may read: of a transaction that began before the deletion was committed.
_IS_SEEN = (
    b"SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
    b" AND age(backend_xmin) >= age($1::text::xid) LIMIT 1"
)


class PostgresErasure:
    """Writes the tables of memory anew."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._deleted_by = 0
        """The last transaction that deleted something; 0 before the first one of this process."""
        self._is_unfinished = True  # the previous process may have left something

    def overwrite(self, transaction: Transaction) -> None:
        """Note that something was deleted: only after the commit can it be removed."""
        ((self._deleted_by,),) = transaction.rows(_DELETED_BY)
        self._is_unfinished = True

    async def finish(self) -> None:
        """Write the tables anew, unless somebody uses them or reads an older state. Then the next call does it."""
        try:
            self._is_unfinished = not await asyncio.to_thread(self._vacuum)
        except psycopg.Error as error:
            self._is_unfinished = True
            _LOGGER.warning("deleted memory is still in the files of the server, and is removed later: %s", error)

    @property
    def is_unfinished(self) -> bool:
        """Whether the files may have deleted rows."""
        return self._is_unfinished

    def _vacuum(self) -> bool:
        """Write the tables anew, and return whether nobody could see what was deleted."""
        with self._connections.brief(lock_timeout_ms=_LOCK_TIMEOUT_MS) as connection:
            if not self._deleted_by:
                ((self._deleted_by,),) = connection.execute(_BEGUN_BY_NOW).fetchall()
            is_seen = connection.execute(_IS_SEEN, (self._deleted_by % _XIDS,)).fetchall()
            connection.execute(_VACUUM)
        return not is_seen

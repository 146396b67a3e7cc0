"""Overwrites what was deleted from memory, so that its bytes are nowhere in the file.

SQLite only forgets where deleted rows are: their bytes stay in pages until something else is written there, and the
splitting and merging of pages leaves copies behind. `secure_delete` overwrites the rows that are deleted, but not those
copies, and full-text indexes keep deleted words until their segments are merged. So the tables of memory are emptied
and filled again, while every page that is freed is overwritten, and the index is built again. Afterwards the
write-ahead log, which has the old pages too, is copied and cut off.

Above it: `database`. Below it: SQLite. Copies of the file, backups among them, are not ours to change.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from penstock.base.errors import Unavailable
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.checksums import checked_columns

__all__ = ["SqliteErasure"]

_LOGGER = logging.getLogger("penstock.memory")
_COLUMNS = f"entry, {checked_columns('memory_entries')}, checksum"
_STATEMENTS = (
    f"INSERT INTO memory_staging ({_COLUMNS}) SELECT {_COLUMNS} FROM memory_entries",
    # Without a condition, all pages of the table and its indexes are freed, and so overwritten.
    "DELETE FROM memory_entries",
    f"INSERT INTO memory_entries ({_COLUMNS}) SELECT {_COLUMNS} FROM memory_staging",
    "DELETE FROM memory_staging",
    "INSERT INTO memory_text (memory_text) VALUES ('rebuild')",
)


class SqliteErasure:
    """Writes the tables of memory again from the start, and cuts the log of the file off."""

    def __init__(self, cut_log: Callable[[], Awaitable[bool]]) -> None:
        self._cut_log = cut_log
        self._is_log_left = True  # the previous process may have left it

    def overwrite(self, transaction: Transaction) -> None:
        """Overwrite everything of memory that is not there any more."""
        self._is_log_left = True
        ((before,),) = transaction.rows("PRAGMA secure_delete")
        transaction.rows("PRAGMA secure_delete = ON")
        try:
            for statement in _STATEMENTS:
                transaction.execute(statement)
        finally:
            transaction.rows(f"PRAGMA secure_delete = {int(before)}")

    async def finish(self) -> None:
        """Copy all of the log into the file and make it empty, unless somebody reads an older state.

        The deletion is committed. If this fails, the next call tries again.
        """
        try:
            self._is_log_left = not await self._cut_log()
        except Unavailable as error:
            self._is_log_left = True
            _LOGGER.warning("deleted memory is still in the log of the file, and is removed later: %s", error)

    @property
    def is_unfinished(self) -> bool:
        """Whether the log may have overwritten pages."""
        return self._is_log_left

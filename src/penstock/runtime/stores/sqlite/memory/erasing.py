"""Overwrites what was deleted from memory, so that its bytes are nowhere in the file.

SQLite only forgets where deleted rows are: their bytes stay in pages until something else is written there, and the
splitting and merging of pages leaves copies behind. `secure_delete` overwrites the rows that are deleted, but not those
copies, and full-text indexes keep deleted words until their segments are merged. So the tables of memory are emptied
and filled again, while every page that is freed is overwritten, and the index is built again. That takes a time
proportional to all that is remembered, which quotas bound; more than `MEMORY_ERASED_AT_ONCE_BYTES_MAX` is left for
later, and a mark says so. Afterwards the write-ahead log, which has the old pages too, is copied and cut off.

Above it: `store`. Below it: SQLite. Copies of the file, backups among them, are not ours to change.
"""

from __future__ import annotations

import sqlite3

__all__ = ["ERASURE_MARK", "erase_remains", "is_left", "leave_remains"]

ERASURE_MARK = "memory-erasure"
"""The mark that says that something was deleted and is not overwritten yet."""
_STATEMENTS = (
    "INSERT INTO memory_staging SELECT * FROM memory_entries",
    # Without a condition, all pages of the table and its indexes are freed, and so overwritten.
    "DELETE FROM memory_entries",
    "INSERT INTO memory_entries SELECT * FROM memory_staging",
    "DELETE FROM memory_staging",
    "INSERT INTO memory_text (memory_text) VALUES ('rebuild')",
)


def erase_remains(connection: sqlite3.Connection) -> None:
    """Overwrite everything of memory that is not there any more."""
    (before,) = connection.execute("PRAGMA secure_delete").fetchone()
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    try:
        for statement in _STATEMENTS:
            connection.execute(statement)
        connection.execute("DELETE FROM marks WHERE name = ?", (ERASURE_MARK,))
    finally:
        connection.execute(f"PRAGMA secure_delete = {int(before)}").fetchall()


def leave_remains(connection: sqlite3.Connection) -> None:
    """Note that something is left to be overwritten."""
    connection.execute("INSERT INTO marks (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (ERASURE_MARK, b"true"))


def is_left(connection: sqlite3.Connection) -> bool:
    """Whether something is left to be overwritten."""
    return connection.execute("SELECT 1 FROM marks WHERE name = ?", (ERASURE_MARK,)).fetchone() is not None

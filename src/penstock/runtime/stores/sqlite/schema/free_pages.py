"""Returns the space of free pages in small pieces, while the file is in use.

A file that this release creates tracks its pages (`auto_vacuum = INCREMENTAL`), so that free ones can be moved to its
end and cut off. A file of an older release does not; `vacuum` changes that once. Some free pages stay: what is deleted
today is written tomorrow, and a file that shrinks and grows again does work for nothing.

Above it: `group_commit`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3

from penstock.base import limits

__all__ = ["return_free_pages"]

_INCREMENTAL = 2


def return_free_pages(connection: sqlite3.Connection) -> int:
    """Cut free pages off the file, a bounded number and inside a transaction. Returns how many."""
    free, total = _read_pragma(connection, "freelist_count"), _read_pragma(connection, "page_count")
    surplus = free - max(limits.STORE_FREE_PAGES_KEPT, total // limits.STORE_FREE_PAGES_KEPT_PART)
    if surplus <= 0 or _read_pragma(connection, "auto_vacuum") != _INCREMENTAL:
        return 0
    # One page at a time: Python steps once over a statement without columns, and SQLite frees one page per step.
    for _ in range(min(surplus, limits.STORE_PAGES_RETURNED_MAX)):
        connection.execute("PRAGMA incremental_vacuum(1)")
    return free - _read_pragma(connection, "freelist_count")


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])

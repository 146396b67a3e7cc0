"""Releases the space of free pages: in small pieces while the file is in use, or all at once with a vacuum.

A file that this release creates tracks its pages (`auto_vacuum = INCREMENTAL`), so that free ones can be moved to its
end and cut off. A file of an older release does not; `vacuum` changes that once. Some free pages stay: what is deleted
today is written tomorrow, and a file that shrinks and grows again does work for nothing.

Above it: `runs.store` when runs are deleted, `maintenance`. Below it: `files`.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from penstock.base import limits
from penstock.base.errors import Conflict, NotFound
from penstock.runtime.ports.maintenance import VacuumResult
from penstock.runtime.stores.sqlite.errors import explain, is_busy
from penstock.runtime.stores.sqlite.schema.files import connect
from penstock.runtime.stores.sqlite.schema.log_notes import log_loss
from penstock.runtime.stores.sqlite.schema.migrations import identify
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions

__all__ = ["return_free_pages", "vacuum"]

_INCREMENTAL = 2


def return_free_pages(connection: sqlite3.Connection) -> int:
    """Cut free pages off the file, a bounded number and inside a transaction. Returns how many."""
    free, total = _number(connection, "freelist_count"), _number(connection, "page_count")
    surplus = free - max(limits.STORE_FREE_PAGES_KEPT, total // limits.STORE_FREE_PAGES_KEPT_PART)
    if surplus <= 0 or _number(connection, "auto_vacuum") != _INCREMENTAL:
        return 0
    # One page at a time: Python steps once over a statement without columns, and SQLite frees one page per step.
    for _ in range(min(surplus, limits.STORE_PAGES_RETURNED_MAX)):
        connection.execute("PRAGMA incremental_vacuum(1)")
    return free - _number(connection, "freelist_count")


def vacuum(path: str | Path) -> VacuumResult:
    """Rewrite a file without free pages and enable incremental vacuum for it. Nobody else may have it open."""
    place = Path(path)
    if not place.is_file():
        raise NotFound("STORE_NOT_FOUND", f"there is no file {place}", "name the file of a store")
    loss = log_loss(str(place))
    if loss is not None:
        raise loss
    connection = connect(str(place), mode="rw", busy_timeout_ms=0)
    began, before = time.perf_counter(), place.stat().st_size
    try:
        identify(connection, str(place))
        # Leaving WAL mode succeeds only if no other connection exists, not even an idle one. After that none can be
        # opened.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        register_functions(connection)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    except sqlite3.Error as error:
        if is_busy(error):
            message = f"{place} is in use by another process"
            raise Conflict("STORE_IN_USE", message, "stop the processes that use it, then try again") from error
        raise explain(error, str(place)) from error
    finally:
        connection.close()
    seconds = time.perf_counter() - began
    return VacuumResult(path=str(place), bytes_before=before, bytes_after=place.stat().st_size, seconds=seconds)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])

"""Rewrites a file without free pages, and lets it return free pages from then on (see `free_pages`).

Above it: `maintenance`. Below it: `files`.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from penstock.base.errors import Conflict, NotFound
from penstock.runtime.ports.maintenance import VacuumResult
from penstock.runtime.stores.sqlite.errors import explain, is_busy
from penstock.runtime.stores.sqlite.schema.files import connect
from penstock.runtime.stores.sqlite.schema.log_notes import log_loss
from penstock.runtime.stores.sqlite.schema.migrations import identify
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions

__all__ = ["vacuum"]


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

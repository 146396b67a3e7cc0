"""A look at a file that takes no time: its format, what waits for people, what failed, and whether a worker is alive.

It reads counts by index, opens nothing of a store, and leaves the file and the folder as they are.

Above it: `file`. Below it: `schema.version`, sqlite3.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from penstock.base import limits
from penstock.runtime.ports.maintenance import StoreGlance
from penstock.runtime.stores.sqlite.schema.version import SCHEMA_VERSION

__all__ = ["glance_at"]

_TENANT = "default"
_HEADER_BYTES = 20
_WAL = 2
_BUSY_SECONDS = 0.1
_LIVE = (
    "pending",
    "running",
    "paused",
    "waiting_input",
    "waiting_approval",
    "waiting_decision",
    "waiting_activity",
    "waiting_signal",
    "waiting_timer",
    "waiting_child",
    "compensating",
    "cancelling",
)


def glance_at(path: Path, *, failed_since: int, now: int) -> StoreGlance:
    """Look at a file; whatever prevents that is in `problem`."""
    try:
        # A file that says it has a log, and has none, is not in use. SQLite would leave an empty log beside it.
        is_lone = _says_it_has_log(path) and not Path(f"{path}-wal").exists()
        address = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_lone else ''}"
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)
    except (OSError, sqlite3.Error) as error:
        return _glance(0, problem=str(error))
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA_VERSION:
            return _glance(version)
        marks = ", ".join("?" * len(_LIVE))
        counted = f"SELECT status, count(*) FROM runs WHERE tenant = ? AND status IN ({marks}) GROUP BY status"
        live = dict(connection.execute(counted, (_TENANT, *_LIVE)).fetchall())
        failed = "SELECT count(*) FROM runs WHERE tenant = ? AND status = 'failed' AND updated_at >= ?"
        (failures,) = connection.execute(failed, (_TENANT, failed_since)).fetchone()
        alive = "SELECT count(*) FROM workers WHERE seen_at >= ?"
        (workers,) = connection.execute(alive, (now - limits.WORKER_LEASE_MS,)).fetchone()
        return _glance(version, live=live, failed=failures, workers=workers)
    except sqlite3.Error as error:
        return _glance(0, problem=str(error))
    finally:
        connection.close()


def _glance(version: int, **found: Any) -> StoreGlance:
    return StoreGlance(format_version=version, current_format=SCHEMA_VERSION, **found)


def _says_it_has_log(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    return len(header) == _HEADER_BYTES and header[18] == _WAL

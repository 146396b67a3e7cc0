"""Opening the SQLite file: connections, and the settings under which it is written.

Above it: `database`, `maintenance`. Below it: `migrations`, `sql_functions`, sqlite3.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from penstock.base import limits
from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite.errors import is_busy
from penstock.runtime.stores.sqlite.schema.log_ends import forget_end
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection, log_loss, note_log
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION, identify, migrate
from penstock.runtime.stores.sqlite.schema.sql_functions import register_functions

__all__ = ["Synchronous", "connect", "open_for_writing"]

Synchronous = Literal["FULL", "NORMAL", "OFF"]

# The WAL is truncated to this size after a burst, so that it does not keep the space for ever.
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_BUSY_NAP_SECONDS = 0.005


def connect(
    path: str,
    *,
    mode: Literal["ro", "rw", "rwc"],
    busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """A connection with no implicit transactions: all transactions are explicit."""
    # A path may contain any character; in a URI it must be quoted.
    address = f"{Path(path).absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        address,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_timeout_ms / 1000,
        factory=factory,
    )


def open_for_writing(
    path: str, *, synchronous: Synchronous = "FULL", busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS
) -> sqlite3.Connection:
    """Open or create a file, migrate it to the current version, and check that it can be written.

    A file that lost its log is not opened: it lacks what was acknowledged last.
    """
    _make_private(path)
    loss = log_loss(path)
    if loss is not None:
        raise loss
    connection = connect(path, mode="rwc", busy_timeout_ms=busy_timeout_ms, factory=NotedConnection)
    try:
        if identify(connection, path) == 0:
            # Only possible while the file has no tables; see `vacuum`.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_write_ahead_log(connection, path, busy_timeout_ms)
        if not _has_log(path):
            forget_end(path)  # of a log that another program merged
        connection.execute(f"PRAGMA wal_autocheckpoint = {limits.STORE_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        connection.execute("PRAGMA cache_size = -16000")
        register_functions(connection)
        migrate(connection, path)
        _check_writable(connection)
        note_log(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_log(path: str) -> bool:
    """Whether there is a log with contents."""
    with suppress(OSError):
        return os.stat(f"{os.path.realpath(path)}-wal").st_size > 0
    return False


def _make_private(path: str) -> None:
    """Create a file that only its owner can read. Its log and the log's index inherit its permissions.

    An existing file is left as it is: the operator decides who else may read it.
    """
    with suppress(OSError):  # the folder is missing or read-only: SQLite raises its own error for that
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _check_writable(connection: sqlite3.Connection) -> None:
    """Check that the file can be written, by changing it.

    A file without write permission can be opened, and a transaction can even be started. Only a change fails.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    finally:
        connection.execute("ROLLBACK")


def _use_write_ahead_log(connection: sqlite3.Connection, path: str, busy_timeout_ms: int) -> None:
    deadline = time.monotonic() + busy_timeout_ms / 1000
    mode = ""
    while not mode:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # Two processes that create a file at the same time collide here, and SQLite does not wait.
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_BUSY_NAP_SECONDS)
    if mode != "wal":
        message = f"{path}: its file system cannot share memory between processes, which the write-ahead log needs"
        raise Unavailable("STORE_UNSUITABLE", message, "put the file on a local disk")

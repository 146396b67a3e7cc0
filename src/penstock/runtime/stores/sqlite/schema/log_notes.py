"""Whether a file misses its log: it was in use when it was last written, and the write-ahead log is gone.

The file itself notes that it is in use. SQLite writes into its header whether it has a log, and Penstock takes that
back when the last connection closes it (`NotedConnection`). So a file with the note and without a log lost its log, and
with it everything that was acknowledged and not copied into the file yet. A process that is killed leaves its log
behind, and the next start reads it.

Releases before this left the note in the header. A mark in the file says that it was opened by one that does not.

What was cut off the end of a log is noticed too; see `log_ends`.

The header is only read through SQLite: closing the file in another way would drop this process's locks on it.

Above it: `files`, `maintenance`. Below it: `log_ends`, sqlite3.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from penstock.base.errors import Unavailable
from penstock.runtime.stores.sqlite.schema.log_ends import forget_end, is_log_cut, remove_end

__all__ = ["NotedConnection", "accept_missing_log", "is_log_missing", "log_loss", "note_log"]

_MARK = "log_noted"
_CLOSING = "log_closing"
_ADD_MARK = "INSERT OR IGNORE INTO marks (name, value) VALUES (?, '1')"
_REMOVE_MARK = "DELETE FROM marks WHERE name = ?"
_HAS_MARKS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'marks'"
_IS_NOTED = "SELECT 1 FROM marks WHERE name = ?"
# Another process may open or close the file between two looks; it cannot do so every time.
_LOOKS = 3


class NotedConnection(sqlite3.Connection):
    """A connection that takes the note back when it closes a file as the last one."""

    def close(self) -> None:
        """Copy the log into the file and take back the note, if nobody else has the file open. Then close it."""
        with suppress(sqlite3.Error):  # somebody else uses it, or it cannot be written: then the log stays
            if self.in_transaction:
                self.execute("ROLLBACK")
            self.isolation_level = None  # the journal cannot be changed in a transaction that Python opened by itself
            self.execute("PRAGMA busy_timeout = 0")
            self.execute("PRAGMA query_only = OFF")
            self._take_back()
        super().close()

    def _take_back(self) -> None:
        ((_, _, path), *_) = self.execute("PRAGMA database_list").fetchall()
        # SQLite removes the log before it changes the header. A process that is killed in between leaves a mark.
        is_marked = _is_noted(self)
        if is_marked:
            self.execute(_ADD_MARK, (_CLOSING,))
        try:
            (mode,) = self.execute("PRAGMA journal_mode = DELETE").fetchone()
        except sqlite3.Error:
            mode = "wal"
        if mode != "wal":
            remove_end(path)
        elif is_marked:
            self.execute(_REMOVE_MARK, (_CLOSING,))


def log_missing(path: str) -> Unavailable:
    """The error of a file that misses its log."""
    message = (
        f"{path}: the file was in use when it was last written, and its log {Path(path).name}-wal is gone; what was"
        " acknowledged and only in the log is lost"
    )
    hint = (
        "put the log back, or restore a backup; to continue with what is in the file, or if another program such as"
        " sqlite3 closed it last and merged the log, run `penstock server check --accept-missing-log`"
    )
    return Unavailable("STORE_LOG_MISSING", message, hint)


def log_loss(path: str) -> Unavailable | None:
    """The error of a file that misses its log or a part of it; None if it has all of it."""
    if is_log_missing(path):
        return log_missing(path)
    if not is_log_cut(path):
        return None
    message = (
        f"{path}: its log {Path(path).name}-wal was cut or changed; commits that were acknowledged are no longer in it"
    )
    hint = (
        "put the whole log back, or restore a backup; to continue with what is left, run"
        " `penstock server check --accept-missing-log`"
    )
    return Unavailable("STORE_LOG_CUT", message, hint)


def is_log_missing(path: str) -> bool:
    """Whether a file misses its log. Every look opens and closes the file, and changes nothing in it."""
    for _ in range(_LOOKS):
        if not os.path.exists(path) or _has_log(path) or not _says_open(path) or _has_log(path):
            return False
    return True


def _has_log(path: str) -> bool:
    return os.path.exists(f"{os.path.realpath(path)}-wal")


def _says_open(path: str) -> bool:
    address = f"{Path(path).absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            return mode == "wal" and _is_noted(connection) and not _is_noted(connection, _CLOSING)
    except sqlite3.Error:
        return False  # opening the file for work raises and explains the error


def _is_noted(connection: sqlite3.Connection, mark: str = _MARK) -> bool:
    if connection.execute(_HAS_MARKS).fetchone() is None:
        return False
    return connection.execute(_IS_NOTED, (mark,)).fetchone() is not None


def note_log(connection: sqlite3.Connection) -> None:
    """Mark a file as one whose header tells whether it is open, and as open: in the file, not in its log."""
    if connection.execute(_HAS_MARKS).fetchone() is None:
        return
    if not _is_noted(connection) or _is_noted(connection, _CLOSING):
        connection.execute(_ADD_MARK, (_MARK,))
        connection.execute(_REMOVE_MARK, (_CLOSING,))
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def accept_missing_log(path: str) -> bool:
    """Take back the note of a file that misses its log or a part of it. False if it misses nothing."""
    if is_log_cut(path):
        forget_end(path)
        return True
    if not is_log_missing(path):
        return False
    address = f"{Path(path).absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    return True

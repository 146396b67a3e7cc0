"""What an SQLite error means for the operator, and what to do about it.

Above it: everything that uses an SQLite file. It reads error codes, never messages.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject

__all__ = ["concerns_row", "explain", "is_busy", "is_of_constraint", "is_of_statement"]

# The low byte of an extended code is the primary code.
_PRIMARY_CODE = 0xFF

_KEPT = "nothing that was acknowledged is lost"
_CANNOT_GROW = (
    "STORE_FULL",
    "nothing can be written",
    f"free some space, or raise the quota or the limit on the size of files; if there is room, check the disk; {_KEPT}",
)
_EXPLANATIONS: dict[int, tuple[str, str, str]] = {
    sqlite3.SQLITE_FULL: ("STORE_FULL", "the disk is full", f"free some space; {_KEPT}"),
    sqlite3.SQLITE_READONLY: (
        "STORE_READ_ONLY",
        "the file cannot be written",
        "let this process write the file and its folder",
    ),
    sqlite3.SQLITE_PERM: ("STORE_READ_ONLY", "the file may not be used", "let this process read and write the file"),
    sqlite3.SQLITE_AUTH: ("STORE_READ_ONLY", "the file may not be used", "let this process read and write the file"),
    sqlite3.SQLITE_BUSY: ("STORE_LOCKED", "another process holds the file", "wait, or end the process that holds it"),
    sqlite3.SQLITE_LOCKED: ("STORE_LOCKED", "another process holds the file", "wait, or end the process that holds it"),
    sqlite3.SQLITE_PROTOCOL: ("STORE_LOCKED", "another process holds the file", "wait, then try again"),
    sqlite3.SQLITE_NOTADB: (
        "STORE_CORRUPT",
        "this is not a Penstock file, or its beginning is damaged",
        "name the right file, or restore a backup with `penstock server restore`",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "STORE_CORRUPT",
        "the file is damaged",
        "look at the damage with `penstock server check`, and restore a backup with `penstock server restore`",
    ),
    sqlite3.SQLITE_IOERR: (
        "STORE_IO_ERROR",
        "the disk reported an error",
        f"check the disk and the space that is left; {_KEPT}",
    ),
    # SQLite names a full disk only if the system does (ENOSPC); a quota or a limit on the size of files comes as these.
    sqlite3.SQLITE_IOERR_WRITE: _CANNOT_GROW,
    sqlite3.SQLITE_IOERR_SHMSIZE: _CANNOT_GROW,
    sqlite3.SQLITE_NOMEM: ("STORE_FAILED", "there is not enough memory", f"free some memory; {_KEPT}"),
}


def explain(error: Exception, path: str) -> Unavailable:
    """The error to raise for an SQLite error. Its details hold SQLite's own message."""
    details: JsonObject = {"sqlite": str(error), "sqlite_name": getattr(error, "sqlite_errorname", None)}
    code = _code(error)
    if code == sqlite3.SQLITE_CANTOPEN:
        name, message, hint = _unreachable(path)
    else:
        failed = ("STORE_FAILED", f"the store failed: {error}", "this is unexpected; keep the file and report it")
        extended = int(getattr(error, "sqlite_errorcode", 0) or 0)
        name, message, hint = _EXPLANATIONS.get(extended) or _EXPLANATIONS.get(code, failed)
    return Unavailable(name, f"{path}: {message}", hint, details)


def is_busy(error: Exception) -> bool:
    """True if a retry in a moment may help."""
    return isinstance(error, sqlite3.OperationalError) and _code(error) in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PROTOCOL,
    )


def concerns_row(error: sqlite3.Error) -> bool:
    """Whether an error is about the rows of a statement: damaged, undecodable or protected, and not about the file."""
    if isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode"):
        return True  # of Python's module: a cell that should have text has none
    return _code(error) in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_MISMATCH)


def is_of_constraint(error: sqlite3.Error) -> bool:
    """Whether a constraint or a trigger refused a statement."""
    return _code(error) == sqlite3.SQLITE_CONSTRAINT


def is_of_statement(error: sqlite3.Error) -> bool:
    """Whether a statement does not fit the tables that are there."""
    return _code(error) == sqlite3.SQLITE_ERROR and hasattr(error, "sqlite_errorcode")


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & _PRIMARY_CODE


def _unreachable(path: str) -> tuple[str, str, str]:
    """Why a file cannot be opened. SQLite does not say, so this asks the file system."""
    file, folder = Path(path), Path(path).parent
    if file.is_dir():
        return "STORE_UNREACHABLE", "this is a folder", "name a file"
    if not folder.is_dir():
        return "STORE_UNREACHABLE", "its folder does not exist", f"make the folder {folder}, or name another file"
    if not os.access(folder, os.W_OK):
        message = "files cannot be made beside it"
        return "STORE_READ_ONLY", message, f"give this process write access to the folder {folder}"
    return "STORE_UNREACHABLE", "the file cannot be opened", "let this process read and write the file"

"""What an error of PostgreSQL means: for the functions of the tables, for the writer, and for the operator.

It reads the codes of the SQL standard and of PostgreSQL (SQLSTATE), never messages.
"""

from __future__ import annotations

import psycopg

from penstock.base.errors import PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject
from penstock.runtime.ports.transactions import RowError, StatementError

__all__ = ["as_port_error", "explain", "may_pass"]

_PRIVILEGE_MISSING, _LOCK_NOT_AVAILABLE = "42501", "55P03"
_SERIALIZATION_FAILED, _DEADLOCK = "40001", "40P01"
_RAISED_BY_TRIGGER = "P0001"
_DAMAGED = ("XX001", "XX002")
# The first two characters are the class of a code.
_CONSTRAINT, _VALUE, _STATEMENT, _CONNECTION, _STOPPED = "23", "22", "42", "08", "57"

_KEPT = "nothing that was acknowledged is lost"
_UNREACHABLE = (
    "STORE_UNREACHABLE",
    "the server does not answer",
    f"start PostgreSQL, or check its address; {_KEPT}",
)
_EXPLANATIONS: dict[str, tuple[str, str, str]] = {
    _LOCK_NOT_AVAILABLE: ("STORE_LOCKED", "another process holds what is to be changed", "wait, then try again"),
    _SERIALIZATION_FAILED: ("STORE_LOCKED", "other processes change the same rows", "wait, then try again"),
    _DEADLOCK: ("STORE_LOCKED", "other processes change the same rows", "wait, then try again"),
    _PRIVILEGE_MISSING: ("STORE_READ_ONLY", "the user may not do that", "let this user read and write the tables"),
    "25006": ("STORE_READ_ONLY", "the server takes no changes", "connect to the primary server"),
    "53100": ("STORE_FULL", "the disk is full", f"free some space; {_KEPT}"),
    "53200": ("STORE_FAILED", "the server has not enough memory", f"free some memory; {_KEPT}"),
    "53300": ("STORE_UNREACHABLE", "the server has too many connections", "end some of them, or allow more"),
    "58030": ("STORE_IO_ERROR", "the disk reported an error", f"check the disk; {_KEPT}"),
    **{code: ("STORE_CORRUPT", "the database is damaged", "restore a backup") for code in _DAMAGED},
}


def as_port_error(error: psycopg.Error) -> Exception:
    """Return the error of the port that tells the functions of the tables what happened; others as they are."""
    code = error.sqlstate or ""
    if code[:2] == _CONSTRAINT or code == _RAISED_BY_TRIGGER:
        return RowError(str(error), is_refusal=True)
    if code[:2] == _VALUE or code in _DAMAGED:
        return RowError(str(error))
    if code[:2] == _STATEMENT and code != _PRIVILEGE_MISSING:
        return StatementError(str(error))
    return error


def may_pass(error: Exception) -> bool:
    """Whether the same transaction may succeed at once if it is tried again: it lost against another one."""
    return isinstance(error, psycopg.Error) and error.sqlstate in (_SERIALIZATION_FAILED, _DEADLOCK)


def explain(error: Exception) -> Exception:
    """Return the error to raise for an error of PostgreSQL; any other error as it is."""
    if isinstance(error, RowError | StatementError) and isinstance(error.__cause__, psycopg.Error):
        error = error.__cause__
    if isinstance(error, UnicodeEncodeError):
        return Rejected("TEXT_NOT_UNICODE", "a text has one half of a surrogate pair", "send well-formed text")
    if not isinstance(error, psycopg.Error):
        return error
    return _explain(error)


def _explain(error: psycopg.Error) -> PenstockError:
    code = error.sqlstate
    if code is None and isinstance(error, psycopg.DataError):  # psycopg refuses it before the server sees it
        return Rejected("TEXT_NOT_UNICODE", "a text has a NUL character", "send text without it")
    details: JsonObject = {"postgresql": str(error), "sqlstate": code}
    if code is None or code[:2] in (_CONNECTION, _STOPPED):
        name, message, hint = _UNREACHABLE
    else:
        failed = ("STORE_FAILED", f"the store failed: {error}", "this is unexpected; report it")
        name, message, hint = _EXPLANATIONS.get(code, failed)
    return Unavailable(name, f"PostgreSQL: {message}", hint, details)

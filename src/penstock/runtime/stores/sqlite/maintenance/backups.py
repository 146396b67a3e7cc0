"""Backups of an SQLite file: copy it while it is in use, restore a copy, check its integrity, and count its contents.

Everything here is synchronous and opens connections of its own: in a server, call it in a thread. A file is only ever
opened through SQLite, because closing it in any other way would drop the locks that this process has on it.

Above it: `file`. Below it: `schema.files`, `integrity`.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from penstock.base.errors import Conflict, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.ports.maintenance import BackupResult, IntegrityReport, RestoreResult, StoreStats
from penstock.runtime.ports.platform import RESTORED_MARK
from penstock.runtime.ports.transactions import RowError, StatementError
from penstock.runtime.stores.sqlite.errors import explain, is_busy
from penstock.runtime.stores.sqlite.maintenance.integrity import altered_values, audit, damaged_report
from penstock.runtime.stores.sqlite.schema.files import connect
from penstock.runtime.stores.sqlite.schema.log_ends import NOTE_SUFFIX
from penstock.runtime.stores.sqlite.schema.log_notes import NotedConnection, is_log_missing, log_loss
from penstock.runtime.stores.sqlite.schema.migrations import identify
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction, cause_of
from penstock.runtime.tables.codec import encode_json
from penstock.runtime.tables.resources import stored_mark, write_mark

__all__ = ["backup", "check_integrity", "format_version", "read_mark", "restore", "stats"]

# Beside the main file: the write-ahead log, its index and its noted end, or the journal of a file that is not in use.
_COMPANIONS = ("-wal", "-shm", "-journal", NOTE_SUFFIX)


def backup(path: str | Path, target: str | Path, *, overwrite: bool = False) -> BackupResult:
    """Copy a store to another file while it is in use: one verified snapshot, which appears there atomically."""
    source, goal = Path(path), Path(target)
    _must_exist(source)
    if _is_same(source, goal):
        raise Rejected("BACKUP_ONTO_ITSELF", f"{goal} is the store itself", "name another file for the backup")
    if goal.exists() and not overwrite:
        raise _backup_exists(goal)
    with _snapshot_copy(source, goal) as copy:
        version, runs = _verify(copy, source)
        if overwrite:
            replaced = _replace(copy, goal)
            if replaced is not None:
                _remove(replaced)
        else:
            _move_to_free_name(copy, goal)
    return BackupResult(path=str(goal), size_bytes=goal.stat().st_size, runs=runs, format_version=version)


def restore(
    source: str | Path, path: str | Path, *, force: bool = False, note: JsonObject | None = None
) -> RestoreResult:
    """Replace a store that nobody has open with a backup. The old file is kept beside it.

    `note` is stored in the new file before it is moved into place, together with the ends of the replaced audit trails.
    """
    backup_file, goal = Path(source), Path(path)
    _must_exist(backup_file)
    if _is_same(backup_file, goal):
        raise Rejected("BACKUP_ONTO_ITSELF", f"{goal} is the backup itself", "name the store to be replaced")
    if goal.exists() and not force:
        message = f"{goal} already exists"
        raise Conflict(
            "STORE_EXISTS",
            message,
            "choose another file, or replace it with `--force`, which keeps the old file beside it",
        )
    with _snapshot_copy(backup_file, goal) as copy:
        version, runs = _verify(copy, backup_file)
        if note is not None:
            _write_note(
                copy,
                {**note, "replaced": _trail_ends(goal), "kept_as": _free_name(goal).name if goal.exists() else None},
            )
        kept_as = _replace(copy, goal, permissions_of=goal if goal.exists() else None)
    return RestoreResult(
        path=str(goal), kept_as=None if kept_as is None else str(kept_as), runs=runs, format_version=version
    )


def check_integrity(path: str | Path) -> IntegrityReport:
    """Find every problem of a store: damage to the file, and runs whose history and index row disagree."""
    _must_exist(Path(path))
    loss = log_loss(str(path))
    if loss is not None:
        return damaged_report(loss)
    connection = _connect_to_read(path)
    try:
        _version(connection, path)
        connection.execute("BEGIN")  # one snapshot, while others continue to write
        return audit(connection)
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            raise explain(error, str(path)) from error
        return damaged_report(explain(error, str(path)))
    finally:
        connection.close()


def stats(path: str | Path) -> StoreStats:
    """Count what a store holds."""
    _must_exist(Path(path))
    connection = _connect_to_read(path)
    try:
        version = _version(connection, path)
        connection.execute("BEGIN")
        by_status: dict[str, int] = dict(
            connection.execute("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status").fetchall()
        )
        records, oldest, newest = connection.execute(
            "SELECT coalesce(sum(seq), 0), min(created_at), max(created_at) FROM runs"
        ).fetchone()
        page_bytes, pages, free = (_pragma(connection, name) for name in ("page_size", "page_count", "freelist_count"))
        return StoreStats(
            path=str(path),
            format_version=version,
            size_bytes=page_bytes * pages,
            free_bytes=page_bytes * free,
            log_bytes=_size(Path(f"{path}-wal")),
            runs=sum(by_status.values()),
            runs_by_status=by_status,
            records=records,
            definitions=connection.execute("SELECT count(*) FROM definitions").fetchone()[0],
            schedules=connection.execute("SELECT count(*) FROM schedules").fetchone()[0],
            oldest_at=oldest,
            newest_at=newest,
        )
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error
    finally:
        connection.close()


def format_version(path: str | Path) -> int:
    """The format of a store, read without changing it."""
    _must_exist(Path(path))
    connection = _connect_to_read(path)
    try:
        return _version(connection, path)
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error
    finally:
        connection.close()


def read_mark(path: str | Path, name: str) -> JsonValue:
    """The small value that a store keeps under a name; None if the store has no such value, as in the oldest files."""
    _must_exist(Path(path))
    connection = _connect_to_read(path)
    try:
        _version(connection, path)
        if not _has_table(connection, "marks"):
            return None
        return stored_mark(SqliteTransaction(connection), name)
    except (sqlite3.Error, RowError, StatementError) as error:
        raise explain(cause_of(error), str(path)) from error
    finally:
        connection.close()


# --- copying -------------------------------------------------------------------------------------


@contextmanager
def _snapshot_copy(source: Path, goal: Path) -> Iterator[Path]:
    """Copy a snapshot of a store to a file beside its goal. The copy is deleted at the end unless it was moved."""
    if not goal.parent.is_dir():
        message = f"the folder {goal.parent} does not exist"
        raise NotFound("FOLDER_NOT_FOUND", message, "create the folder, or choose another one")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{goal.name}.", suffix=".part", dir=goal.parent)
    except OSError as error:
        message = f"cannot create a file in {goal.parent}: {error.strerror}"
        raise Unavailable("STORE_READ_ONLY", message, "give this process write access to the folder") from error
    os.close(handle)
    copy = Path(name)
    try:
        _copy(source, copy, goal)
        yield copy
    finally:
        _remove(copy)


def _copy(source: Path, copy: Path, goal: Path) -> None:
    reading = _connect_to_read(source)
    try:
        _version(reading, source)
        writing = connect(str(copy), mode="rw")
        try:
            # In one step, which reads one snapshot and does not block writers.
            reading.backup(writing)
            # The copy has no log: one file holds everything, even on a read-only medium.
            writing.execute("PRAGMA journal_mode = DELETE")
        finally:
            writing.close()
    except sqlite3.Error as error:
        raise explain(error, str(goal if _is_about_writing(error) else source)) from error
    finally:
        reading.close()
    with copy.open("rb+") as file:
        os.fsync(file.fileno())


def _is_about_writing(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)


def _verify(copy: Path, source: Path) -> tuple[int, int]:
    """The format version of a copy and its number of runs. Refuses a copy that is damaged or empty."""
    connection = _connect_to_read(copy)
    try:
        version = _version(connection, source)
        problems = [str(found) for (found,) in connection.execute("PRAGMA integrity_check(5)") if found != "ok"]
        if problems:
            message = f"{source} is damaged: {problems[0]}"
            raise Unavailable(
                "STORE_CORRUPT", message, "use an older backup; `penstock server check` shows all of the damage"
            )
        for code, message in altered_values(connection):
            hint = "use an older backup; `penstock server check` shows all of the damage"
            raise Unavailable(code, f"{source} is damaged: {message}", hint)
        (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        return version, int(runs)
    except sqlite3.Error as error:
        raise explain(error, str(source)) from error
    finally:
        connection.close()


def _connect_to_read(path: str | Path) -> sqlite3.Connection:
    """A connection that is only used for reading.

    It is not opened read-only: such a connection may not remove the log and would leave an empty one behind. A file
    that lost its log, or a part of it, keeps the note of that.
    """
    is_missing = is_log_missing(str(path))
    # A connection that can write would merge what is left of a log that was cut, and remove it.
    mode: Literal["ro", "rw"] = "ro" if not is_missing and log_loss(str(path)) is not None else "rw"
    try:
        connection = connect(
            str(path), mode=mode, factory=NotedConnection if mode == "rw" and not is_missing else sqlite3.Connection
        )
        connection.execute("PRAGMA query_only = ON")
        return connection
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error


def _version(connection: sqlite3.Connection, path: str | Path) -> int:
    """The format version of a store. Refuses a file that is not a store."""
    version = identify(connection, str(path))
    if version == 0:
        raise Rejected("STORE_EMPTY", f"there is no store in {path}", "name a file that Penstock has written")
    return version


def _write_note(copy: Path, note: JsonObject) -> None:
    """Store a note in a copy, with the ends of the audit trails. Files older than audit trails have no table for it."""
    connection = connect(str(copy), mode="rw")
    try:
        if _has_table(connection, "marks"):
            transaction = SqliteTransaction(connection)
            known = stored_mark(transaction, RESTORED_MARK)
            notes = [*(known if isinstance(known, list) else []), note]
            if _has_column(connection, "marks", "checksum"):
                write_mark(transaction, RESTORED_MARK, notes)
            else:
                given = (RESTORED_MARK, encode_json(notes))
                connection.execute("INSERT OR REPLACE INTO marks (name, value) VALUES (?,?)", given)
    except (sqlite3.Error, RowError, StatementError) as error:
        raise explain(cause_of(error), str(copy)) from error
    finally:
        connection.close()


def _trail_ends(path: Path) -> JsonObject:
    """The last number and hash of every audit trail in a file; empty if the file is too damaged."""
    if not path.exists():
        return {}
    try:
        connection = _connect_to_read(path)
    except PenstockError:
        return {}
    try:
        if not _has_table(connection, "audit_heads"):
            return {}
        found = connection.execute("SELECT tenant, last_seq, last_hash FROM audit_heads").fetchall()
        return {str(tenant): [last_seq, last_hash] for tenant, last_seq, last_hash in found}
    except sqlite3.Error:
        return {}
    finally:
        connection.close()


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    return any(name == column for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))


# --- replacing a file ----------------------------------------------------------------------------


def _replace(copy: Path, goal: Path, *, permissions_of: Path | None = None) -> Path | None:
    """Move a copy to its goal and return the new path of the replaced file. Only the owner can read a new file."""
    if permissions_of is not None:
        shutil.copymode(permissions_of, copy)
    kept_as = None
    # Also a log without its file: SQLite would take it for the log of the new file.
    if any(Path(f"{goal}{suffix}").exists() for suffix in ("", *_COMPANIONS)):
        kept_as = _set_aside(goal)
    os.replace(copy, goal)
    _sync_folder(goal.parent)
    return kept_as


def _move_to_free_name(copy: Path, goal: Path) -> None:
    """Move a copy to a name that is free, or refuse: another process may have taken the name meanwhile."""
    # A log without its file: SQLite would take it for the log of the new file.
    if any(Path(f"{goal}{suffix}").exists() for suffix in _COMPANIONS):
        _set_aside(goal)
    try:
        os.link(copy, goal)
    except FileExistsError:
        raise _backup_exists(goal) from None
    except OSError:
        # The file system has no links. The name is taken with an empty file, which the copy replaces at once.
        try:
            goal.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise _backup_exists(goal) from None
        os.replace(copy, goal)
    _sync_folder(goal.parent)


def _backup_exists(goal: Path) -> Conflict:
    return Conflict("BACKUP_EXISTS", f"{goal} already exists", "choose another file, or replace it with `--force`")


def _set_aside(path: Path) -> Path:
    """Rename a store and its log. Refuses while anybody has it open."""
    with _exclusive_lock(path):
        kept_as = _free_name(path)
        for suffix in ("", *_COMPANIONS):
            with suppress(FileNotFoundError):
                os.rename(f"{path}{suffix}", f"{kept_as}{suffix}")
    return kept_as


def _free_name(path: Path) -> Path:
    number = 1
    while (kept_as := path.with_name(f"{path.name}.before-{number}")).exists():
        number += 1
    return kept_as


@contextmanager
def _exclusive_lock(path: Path) -> Iterator[None]:
    """Lock a store that nobody else has open. Refuses databases of other programs."""
    if not path.exists():
        yield
        return
    connection = connect(str(path), mode="rw", busy_timeout_ms=0)
    try:
        try:
            _refuse_foreign(connection, path)
            # Leaving WAL mode succeeds only if no other connection exists, not even an idle one. After that none can be
            # opened.
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if is_busy(error):
                message = f"{path} is in use by another process"
                raise Conflict("STORE_IN_USE", message, "stop the processes that use it, then try again") from error
            # The file is too damaged to be locked, which may be why it is being replaced. A process that still has it
            # open notices at its next write that the file was moved, and refuses to write.
        yield
    finally:
        connection.close()


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    try:
        identify(connection, str(path))
    except Rejected as error:
        if error.code == "STORE_FOREIGN":
            raise


# --- files ---------------------------------------------------------------------------------------


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise NotFound(
            "STORE_NOT_FOUND",
            f"there is no file {path}",
            "check the path, or start a server or a run to create the file",
        )


def _remove(path: Path) -> None:
    for suffix in ("", *_COMPANIONS):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _is_same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where folders can be synchronised."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

"""The SQLite file: its tables, its version, and how older files become current.

Above it: `sqlite`. A file of a newer release is refused; an older one is migrated step by step in one transaction.
"""

from __future__ import annotations

import sqlite3

from penstock.base.errors import Rejected, Unavailable

__all__ = ["SCHEMA_VERSION", "connect", "explain", "migrate"]

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x50454E53  # "PENS": `file` and other tools can tell what this is

_MIGRATIONS: dict[int, str] = {
    1: """
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        workflow_name TEXT NOT NULL,
        workflow_version TEXT NOT NULL,
        definition_hash TEXT NOT NULL,
        status TEXT NOT NULL,
        seq INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        parent_run_id TEXT,
        labels TEXT,
        wake_at INTEGER,
        has_work INTEGER NOT NULL,
        owner TEXT,
        terminal INTEGER NOT NULL
    );
    CREATE INDEX runs_by_status ON runs (status);
    CREATE INDEX runs_by_workflow ON runs (workflow_name);
    CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
    CREATE INDEX runs_by_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
    CREATE INDEX runs_with_work ON runs (owner) WHERE has_work = 1;
    CREATE TABLE labels (
        name TEXT NOT NULL,
        value TEXT NOT NULL COLLATE NOCASE,
        run INTEGER NOT NULL,
        PRIMARY KEY (value, name, run)
    ) WITHOUT ROWID;
    CREATE INDEX labels_by_run ON labels (run);
    CREATE TABLE history (
        run INTEGER NOT NULL,
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        records BLOB NOT NULL,
        PRIMARY KEY (run, first_seq)
    ) WITHOUT ROWID;
    CREATE TABLE definitions (
        hash TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        document BLOB NOT NULL,
        created_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE workflows (name TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE schedules (
        schedule_id TEXT PRIMARY KEY,
        workflow_name TEXT NOT NULL,
        spec BLOB NOT NULL,
        next_at INTEGER,
        paused INTEGER NOT NULL,
        last_run_id TEXT
    ) WITHOUT ROWID;
    CREATE TABLE workers (worker_id TEXT PRIMARY KEY, expires_at INTEGER NOT NULL) WITHOUT ROWID;
    """,
}


def connect(path: str, *, synchronous: str = "FULL", read_only: bool = False) -> sqlite3.Connection:
    """A connection with our settings; transactions are explicit."""
    target = f"file:{path}?mode={'ro' if read_only else 'rwc'}" if path != ":memory:" else path
    connection = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA busy_timeout = 10000")
    if not read_only:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -16000")
    return connection


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file to the current version, or refuse it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application not in (0, _APPLICATION_ID):
        raise Rejected("STORE_FOREIGN", f"{path} is a database of another program", "choose another file")
    if version > SCHEMA_VERSION:
        told = f"{path} was written by a newer release (format {version}; this one knows up to {SCHEMA_VERSION})"
        raise Rejected("STORE_TOO_NEW", told, "use the newer release, or restore a backup of the older format")
    if version == SCHEMA_VERSION:
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
    if version == 0 and tables:
        raise Rejected("STORE_FOREIGN", f"{path} is a database of another program", "choose another file")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(version + 1, SCHEMA_VERSION + 1):
            for statement in _MIGRATIONS[number].split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


_EXPLANATIONS: tuple[tuple[str, str, str, str], ...] = (
    ("full", "STORE_FULL", "the disk is full", "free some space; nothing that was acknowledged is lost"),
    ("readonly", "STORE_READ_ONLY", "the file cannot be written", "check its permissions and its folder's"),
    ("read-only", "STORE_READ_ONLY", "the file cannot be written", "check its permissions and its folder's"),
    ("locked", "STORE_LOCKED", "another process holds the file", "wait, or end the process that holds it"),
    ("not a database", "STORE_CORRUPT", "the file is not a Penstock file", "restore a backup"),
    ("malformed", "STORE_CORRUPT", "the file is damaged", "restore a backup with `penstock restore`"),
    ("unable to open", "STORE_UNREACHABLE", "the file cannot be opened", "check that its folder exists"),
    ("disk i/o", "STORE_IO_ERROR", "the disk reported an error", "check the disk; nothing acknowledged is lost"),
)


def explain(error: sqlite3.Error, path: str) -> Unavailable:
    """What an SQLite error means for the person who runs this."""
    text = str(error).lower()
    for mark, code, told, hint in _EXPLANATIONS:
        if mark in text:
            return Unavailable(code, f"{path}: {told}", hint)
    return Unavailable("STORE_FAILED", f"{path}: the store failed ({type(error).__name__})", "see the log for details")

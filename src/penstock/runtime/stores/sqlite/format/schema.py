"""The SQLite file: its tables, its version, how it is opened, and how older files become current.

A file of another program is refused before anything is changed in it. A file of a newer release is refused; an older
one is migrated step by step in one transaction.

Above it: `store`, `maintenance.copies`. Below it: `pages`, `platform_tables`,
`tenant_tables`, `runs.text_index`, sqlite3.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.stores.sqlite.errors import is_busy
from penstock.runtime.stores.sqlite.format.platform_tables import PLATFORM_TABLES
from penstock.runtime.stores.sqlite.format.tenant_tables import TENANT_TABLES
from penstock.runtime.stores.sqlite.pages.shapes import SHAPE_TABLE
from penstock.runtime.stores.sqlite.platform.audit_heads import HEADS_TABLE
from penstock.runtime.stores.sqlite.runs.names import NAME_TABLE, prepare_names
from penstock.runtime.stores.sqlite.runs.text_index import prepare_text

__all__ = ["SCHEMA_VERSION", "Synchronous", "connect", "identify", "migrate", "open_for_writing"]

Synchronous = Literal["FULL", "NORMAL", "OFF"]

SCHEMA_VERSION = 9
_APPLICATION_ID = 0x50454E53  # "PENS": `file` and other tools can tell what this is

# The WAL is cut back to this size after a burst, so that it does not keep the space for ever.
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_BUSY_NAP_SECONDS = 0.005
# SQLite has one code for everything that is wrong with a statement; only the text tells.
_LACKING = ("no such module", "no such tokenizer")

# Only `status`, `wake_at` and `owner` change at a step and stand in an index; every other index costs once per run.
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
    CREATE INDEX runs_by_text ON runs (run_id COLLATE NOCASE);
    CREATE INDEX runs_by_status ON runs (status);
    CREATE INDEX runs_by_workflow ON runs (workflow_name);
    CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
    CREATE INDEX runs_by_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
    CREATE INDEX runs_with_work ON runs (owner) WHERE has_work = 1;
    CREATE INDEX runs_ended ON runs (updated_at) WHERE terminal = 1;
    CREATE TABLE labels (
        folded TEXT NOT NULL,
        name TEXT NOT NULL,
        run INTEGER NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (folded, name, run)
    ) WITHOUT ROWID;
    CREATE TABLE history (
        run INTEGER NOT NULL,
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        records BLOB NOT NULL
    );
    CREATE UNIQUE INDEX history_by_run ON history (run, first_seq);
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
    2: """
    CREATE TABLE payloads (hash BLOB PRIMARY KEY, content BLOB NOT NULL);
    CREATE TABLE payload_uses (run INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, hash)) WITHOUT ROWID;
    CREATE INDEX payload_uses_by_hash ON payload_uses (hash);
    """,
    3: PLATFORM_TABLES,
    4: TENANT_TABLES,
    5: "ALTER TABLE api_keys ADD COLUMN toolset TEXT",
    # A worker of an older release stays listed: it may be at work, and is struck off when it turns out to be silent.
    6: """
    ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE workers RENAME COLUMN expires_at TO seen_at;
    ALTER TABLE workers ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
    """,
    7: NAME_TABLE,
    # Older releases cannot read moves, so they must refuse the file; its pages of records stay as they are.
    8: SHAPE_TABLE,
    9: HEADS_TABLE,
}


def connect(
    path: str, *, mode: Literal["ro", "rw", "rwc"], busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS
) -> sqlite3.Connection:
    """A connection that changes nothing by itself; transactions are explicit."""
    # A path may hold any character; as a URI it must be quoted.
    address = f"{Path(path).absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, timeout=busy_timeout_ms / 1000
    )


def open_for_writing(
    path: str, *, synchronous: Synchronous = "FULL", busy_timeout_ms: int = limits.STORE_BUSY_TIMEOUT_MS
) -> sqlite3.Connection:
    """Open or create a file, bring it to the current version, and make sure that it can be written."""
    _make_private(path)
    connection = connect(path, mode="rwc", busy_timeout_ms=busy_timeout_ms)
    try:
        if identify(connection, path) == 0:
            # Only a file without tables can be told to; see `space`.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_write_ahead_log(connection, path, busy_timeout_ms)
        connection.execute(f"PRAGMA wal_autocheckpoint = {limits.STORE_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        connection.execute("PRAGMA cache_size = -16000")
        prepare_text(connection)
        prepare_names(connection)
        migrate(connection, path)
        _check_writable(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: str) -> None:
    """Make a file that only its owner can read; its log and the log's index get their permissions from it.

    One that is there already is left as it is: who else may read it is the operator's word.
    """
    with suppress(OSError):  # a folder that is not there, or cannot be written: SQLite says so in its own words
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _check_writable(connection: sqlite3.Connection) -> None:
    """A file without permission to write opens well enough, and even begins a transaction; only a change shows it."""
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
            # Two processes that open a new file at once get in each other's way here, and SQLite does not wait.
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(_BUSY_NAP_SECONDS)
    if mode != "wal":
        message = f"{path}: its file system cannot share memory between processes, which the write-ahead log needs"
        raise Unavailable("STORE_UNSUITABLE", message, "put the file on a local disk")


def identify(connection: sqlite3.Connection, path: str) -> int:
    """The format version of a file, 0 for an empty one; refuses files that are not ours or that are too new."""
    application, version, objects = _marks(connection)
    is_empty = (application, version, objects) == (0, 0, 0)
    if application != _APPLICATION_ID and not is_empty:
        raise Rejected("STORE_FOREIGN", f"{path} is a database of another program", "choose another file")
    if version > SCHEMA_VERSION:
        message = f"{path} was written by a newer release (format {version}; this one knows up to {SCHEMA_VERSION})"
        raise Rejected("STORE_TOO_NEW", message, "use the newer release, or restore a backup of the older format")
    return version


def _marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """What tells whose file it is, all of one moment: another process may be making it just now."""
    begins = not connection.in_transaction
    if begins:
        connection.execute("BEGIN")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return int(application), int(version), int(objects)
    finally:
        if begins and connection.in_transaction:
            connection.execute("ROLLBACK")


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file to the current version: all the way, or not at all."""
    if identify(connection, path) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another process may have done it while this one waited for its turn.
        for number in range(identify(connection, path) + 1, SCHEMA_VERSION + 1):
            for statement in _MIGRATIONS[number].split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError) and str(error).startswith(_LACKING):
            message = f"this Python has SQLite {sqlite3.sqlite_version} without the index of texts that {path} needs"
            raise Unavailable(
                "STORE_UNSUITABLE", message, "use a Python whose SQLite has FTS5, 3.34 or later"
            ) from error
        raise

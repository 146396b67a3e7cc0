"""The format of the SQLite file: every step from an empty file to the current version, and how a file is migrated.

A released step is never changed; later changes are new steps. A file of another program is refused before anything in
it is changed. A file of a newer release is refused; an older one is migrated in one transaction. An empty file is given
its tables at once (`current`).

Above it: `files`, `vacuum`, `maintenance`. The connection must have `sql_functions` registered, which two of the steps
call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.stores.sqlite.graph_checksums import graph_tables_of
from penstock.runtime.stores.sqlite.schema.current import new_file_statements
from penstock.runtime.stores.sqlite.schema.edge_tables import add_hop_tables, add_override_tables
from penstock.runtime.stores.sqlite.schema.graph_tables import GRAPH_TABLES, TEXT_INDEX_TABLE
from penstock.runtime.stores.sqlite.schema.key_subjects import add_subjects
from penstock.runtime.stores.sqlite.schema.memory_tables import MEMORY_TABLES
from penstock.runtime.stores.sqlite.schema.starters import add_starters
from penstock.runtime.stores.sqlite.schema.topics import topic_statements
from penstock.runtime.stores.sqlite.schema.version import SCHEMA_VERSION

__all__ = ["MIGRATIONS", "SCHEMA_VERSION", "identify", "migrate", "migrate_by_steps"]
_APPLICATION_ID = 0x50454E53  # "PENS": `file` and other tools can recognise the format
# SQLite has one code for every error in a statement; only the message tells them apart.
_LACKING = ("no such module", "no such tokenizer")

# Only `status`, `wake_at` and `owner` are indexed and change at each step. Every other index costs one write per run.
_RUN_TABLES = """
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
    """
_PAYLOAD_TABLES = """
    CREATE TABLE payloads (hash BLOB PRIMARY KEY, content BLOB NOT NULL);
    CREATE TABLE payload_uses (run INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, hash)) WITHOUT ROWID;
    CREATE INDEX payload_uses_by_hash ON payload_uses (hash);
    """
# An audit record is found by its place in its chain. The two indexes serve queries that would otherwise walk a long
# chain for a few records. Both are partial, so that the record of an ordinary read is written only once.
_PLATFORM_TABLES = """
    CREATE TABLE api_keys (
        key_id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        secret_hash TEXT NOT NULL,
        scopes TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        created_by TEXT,
        expires_at INTEGER,
        revoked_at INTEGER,
        last_used_at INTEGER,
        replaces TEXT
    ) WITHOUT ROWID;
    CREATE INDEX api_keys_by_age ON api_keys (created_at, key_id);
    CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created_at, key_id);
    CREATE TABLE calls (
        tenant TEXT NOT NULL,
        principal TEXT NOT NULL,
        operation TEXT NOT NULL,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,
        until INTEGER NOT NULL,
        answer BLOB,
        PRIMARY KEY (tenant, principal, operation, key)
    );
    CREATE INDEX calls_by_end ON calls (until);
    CREATE TABLE audit (
        tenant TEXT NOT NULL,
        seq INTEGER NOT NULL,
        at INTEGER NOT NULL,
        principal TEXT NOT NULL,
        surface TEXT NOT NULL,
        operation TEXT NOT NULL,
        outcome TEXT NOT NULL,
        code TEXT,
        subject TEXT,
        request_id TEXT,
        arguments_digest TEXT,
        count INTEGER NOT NULL,
        details BLOB,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL,
        PRIMARY KEY (tenant, seq)
    ) WITHOUT ROWID;
    CREATE INDEX audit_by_subject ON audit (tenant, subject, seq) WHERE subject IS NOT NULL;
    CREATE INDEX audit_not_allowed ON audit (tenant, outcome, seq) WHERE outcome <> 'allowed';
    CREATE TABLE resources (
        kind TEXT NOT NULL,
        tenant TEXT NOT NULL,
        resource_id TEXT NOT NULL,
        body BLOB NOT NULL,
        etag TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        updated_by TEXT,
        PRIMARY KEY (kind, tenant, resource_id)
    );
    CREATE TABLE deliveries (
        number INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        delivery_id TEXT NOT NULL,
        endpoint_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        event BLOB NOT NULL,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        next_at INTEGER,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        last_status INTEGER,
        last_error TEXT,
        UNIQUE (tenant, delivery_id)
    );
    CREATE INDEX deliveries_by_tenant ON deliveries (tenant);
    CREATE INDEX deliveries_by_endpoint ON deliveries (tenant, endpoint_id);
    CREATE INDEX deliveries_by_state ON deliveries (tenant, state);
    CREATE INDEX deliveries_due ON deliveries (coalesce(next_at, created_at)) WHERE state = 'pending';
    CREATE INDEX deliveries_ended ON deliveries (updated_at) WHERE state <> 'pending';
    CREATE TABLE marks (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    """
# Tenants, versions of definitions, and the text index. The contents of older files belong to the default tenant. The
# number of a version gives the order of puts. `workflows` has the newest version of each name that is not deleted. In
# older files only the dates give the order of definitions; the one that a name stands for came last.
_TENANT_TABLES = """
    ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
    DROP INDEX runs_by_text;
    DROP INDEX runs_by_status;
    DROP INDEX runs_by_workflow;
    CREATE INDEX runs_by_tenant ON runs (tenant);
    CREATE INDEX runs_by_status ON runs (tenant, status);
    CREATE INDEX runs_by_workflow ON runs (tenant, workflow_name);
    CREATE VIRTUAL TABLE runs_text USING fts5
        (text, content = '', columnsize = 0, detail = none, tokenize = 'trigram case_sensitive 1');
    INSERT INTO runs_text (rowid, text)
        SELECT key, indexed_text(tenant, run_id, workflow_name, labels) FROM runs ORDER BY key;
    CREATE TABLE definition_versions (
        number INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        hash TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        created_by TEXT
    );
    CREATE INDEX definition_versions_by_name ON definition_versions (tenant, name);
    CREATE INDEX definition_versions_by_hash ON definition_versions (hash, tenant);
    ALTER TABLE workflows RENAME TO workflows_before;
    INSERT INTO definition_versions (tenant, name, hash, created_at)
        SELECT 'default', name, hash, created_at FROM definitions
        WHERE (name, hash) NOT IN (SELECT name, hash FROM workflows_before)
        ORDER BY created_at, hash;
    INSERT INTO definition_versions (tenant, name, hash, created_at)
        SELECT 'default', w.name, w.hash, d.created_at
        FROM workflows_before AS w JOIN definitions AS d ON d.hash = w.hash
        ORDER BY d.created_at, w.name;
    CREATE TABLE workflows (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        hash TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
    ) WITHOUT ROWID;
    INSERT INTO workflows (tenant, name, hash, number)
        SELECT 'default', w.name, w.hash, max(v.number) FROM workflows_before AS w
        JOIN definition_versions AS v ON (v.name, v.hash) = (w.name, w.hash) GROUP BY w.name, w.hash;
    DROP TABLE workflows_before;
    ALTER TABLE schedules ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
    """
# A worker of an older release stays registered: it may be at work, and is removed once it sends no heartbeats.
_WORKER_COLUMNS = """
    ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE workers RENAME COLUMN expires_at TO seen_at;
    ALTER TABLE workers ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
    """
# In files of older releases several workflows may have the same name. It goes to the one whose first version is oldest.
_NAME_TABLE = """
    CREATE TABLE claimed_names (
        tenant TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        workflow TEXT NOT NULL,
        PRIMARY KEY (tenant, kind, name)
    ) WITHOUT ROWID;
    CREATE INDEX claimed_names_by_workflow ON claimed_names (tenant, workflow);
    INSERT OR IGNORE INTO claimed_names (tenant, kind, name, workflow)
        SELECT w.tenant, json_extract(c.value, '$[0]'), json_extract(c.value, '$[1]'), w.name
        FROM workflows AS w JOIN definitions AS d ON d.hash = w.hash, json_each(claimed_names(w.name, d.document)) AS c
        ORDER BY (SELECT min(number) FROM definition_versions AS v WHERE v.tenant = w.tenant AND v.name = w.name);
    """
# Older releases cannot read moves, so they must refuse the file. Its pages of records stay as they are.
_SHAPE_TABLE = "CREATE TABLE shapes (number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, content BLOB NOT NULL);"
# A file has `audit_unsealed` if its chains are older than heads.
_HEADS_TABLE = """
    CREATE TABLE audit_heads (
        tenant TEXT PRIMARY KEY,
        first_seq INTEGER NOT NULL,
        first_previous_hash TEXT NOT NULL,
        last_seq INTEGER NOT NULL,
        last_hash TEXT NOT NULL,
        seal TEXT NOT NULL
    ) WITHOUT ROWID;
    INSERT INTO marks (name, value) SELECT 'audit_unsealed', 'true' WHERE EXISTS (SELECT 1 FROM audit);
    """
# Keys of earlier releases did not say what their holder is. A service acts directly, as these keys did.
_PRINCIPAL_COLUMNS = """
    ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'service';
    ALTER TABLE api_keys ADD COLUMN groups TEXT NOT NULL DEFAULT '[]';
    """
# Records of earlier releases lack these fields, and their seals do not cover them.
_AUDIT_COLUMNS = """
    ALTER TABLE audit ADD COLUMN principal_kind TEXT;
    ALTER TABLE audit ADD COLUMN principal_name TEXT;
    ALTER TABLE audit ADD COLUMN acting_for BLOB;
    ALTER TABLE audit ADD COLUMN credential TEXT;
    ALTER TABLE audit ADD COLUMN client TEXT;
    ALTER TABLE audit ADD COLUMN remote TEXT;
    ALTER TABLE audit ADD COLUMN trace_id TEXT;
    ALTER TABLE audit ADD COLUMN reasons BLOB;
    ALTER TABLE audit ADD COLUMN policy_version TEXT;
    ALTER TABLE audit ADD COLUMN run_id TEXT;
    ALTER TABLE audit ADD COLUMN draft_id TEXT;
    ALTER TABLE audit ADD COLUMN approval_id TEXT;
    """
# What retention removes leaves a row here, for many records at a time.
_EVIDENCE_TABLES = """
    ALTER TABLE audit ADD COLUMN salt TEXT;
    ALTER TABLE audit ADD COLUMN redacted BLOB;
    CREATE TABLE audit_removed (
        tenant TEXT NOT NULL,
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        previous_hash TEXT NOT NULL,
        last_hash TEXT NOT NULL,
        leaves BLOB NOT NULL,
        seal TEXT NOT NULL,
        PRIMARY KEY (tenant, first_seq)
    );
    CREATE INDEX audit_removed_by_end ON audit_removed (tenant, last_seq);
    """
# Nothing of what was used before is known; quotas count from here on.
_USAGE_TABLES = """
    CREATE TABLE usage_counts (
        tenant TEXT NOT NULL,
        subject TEXT NOT NULL,
        day INTEGER NOT NULL,
        runs INTEGER NOT NULL,
        tokens INTEGER NOT NULL,
        cost INTEGER NOT NULL,
        PRIMARY KEY (tenant, subject, day)
    ) WITHOUT ROWID;
    CREATE TABLE quota_runs (
        tenant TEXT NOT NULL,
        subject TEXT NOT NULL,
        run_id TEXT NOT NULL,
        PRIMARY KEY (tenant, subject, run_id)
    ) WITHOUT ROWID;
    CREATE TABLE rate_buckets (
        bucket TEXT PRIMARY KEY,
        tokens REAL NOT NULL,
        at INTEGER NOT NULL,
        full_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    """
# Calls that policies count. Amounts of earlier calls are not known: the audit log has digests of arguments.
_POLICY_TABLES = """
    CREATE TABLE policy_uses (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        action TEXT NOT NULL,
        field TEXT NOT NULL,
        principal TEXT NOT NULL,
        resource TEXT NOT NULL,
        run TEXT NOT NULL,
        amount INTEGER NOT NULL,
        at INTEGER NOT NULL
    );
    CREATE INDEX policy_uses_by_action ON policy_uses (tenant, action, field, at, principal, resource, run, amount);
    CREATE INDEX policy_uses_by_time ON policy_uses (at);
    """
# What models cost, for each run that has a limit or is below another run. Trees from before have spent nothing here.
_SPENDING_TABLES = """
    CREATE TABLE run_spending (
        run_id TEXT PRIMARY KEY,
        above TEXT,
        turns_max INTEGER,
        tokens_max INTEGER,
        cost_max INTEGER,
        time_ms_max INTEGER,
        ends_at INTEGER,
        own_turns INTEGER NOT NULL DEFAULT 0,
        own_requests INTEGER NOT NULL DEFAULT 0,
        own_input_tokens INTEGER NOT NULL DEFAULT 0,
        own_output_tokens INTEGER NOT NULL DEFAULT 0,
        own_cost INTEGER NOT NULL DEFAULT 0,
        own_unpriced INTEGER NOT NULL DEFAULT 0,
        below_turns INTEGER NOT NULL DEFAULT 0,
        below_requests INTEGER NOT NULL DEFAULT 0,
        below_input_tokens INTEGER NOT NULL DEFAULT 0,
        below_output_tokens INTEGER NOT NULL DEFAULT 0,
        below_cost INTEGER NOT NULL DEFAULT 0,
        below_unpriced INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX run_spending_by_caller ON run_spending (above) WHERE above IS NOT NULL;
    """
# Who wrote a version, as JSON. Nobody noted that for earlier versions, which stay as trusted as they were.
_AUTHOR_COLUMNS = """
    ALTER TABLE definition_versions ADD COLUMN author TEXT;
    ALTER TABLE resources ADD COLUMN author TEXT
    """
MIGRATIONS: dict[int, str] = {
    1: _RUN_TABLES,
    2: _PAYLOAD_TABLES,
    3: _PLATFORM_TABLES,
    4: _TENANT_TABLES,
    5: "ALTER TABLE api_keys ADD COLUMN toolset TEXT",
    6: _WORKER_COLUMNS,
    7: _NAME_TABLE,
    8: _SHAPE_TABLE,
    9: _HEADS_TABLE,
    10: _PRINCIPAL_COLUMNS,
    11: _AUDIT_COLUMNS,
    12: _EVIDENCE_TABLES,
    13: _USAGE_TABLES,
    14: _POLICY_TABLES,
    15: GRAPH_TABLES,
    16: "",
    17: TEXT_INDEX_TABLE,
    18: MEMORY_TABLES,
    19: "",
    20: "",
    21: _SPENDING_TABLES,
    22: "",
    23: _AUTHOR_COLUMNS,
    24: "",
    25: "",
    26: "",
}


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Let pages of history have a checksum. Those that are there have none."""
    if all(name != "checksum" for _, name, *_ in connection.execute("PRAGMA table_info(history)")):
        connection.execute("ALTER TABLE history ADD COLUMN checksum INTEGER")


_CHECKED_TABLES = (
    "resources",
    "schedules",
    "deliveries",
    "calls",
    "api_keys",
    "definition_versions",
    "marks",
    "audit",
    "audit_heads",
    "audit_removed",
    "memory_entries",
    "memory_staging",
    "graphs",
    "graph_schemas",
    "graph_branches",
    "graph_commits",
)


def _add_row_checksums(connection: sqlite3.Connection) -> None:
    """Let rows of other tables have a checksum. Those that are there get one when they are written again."""
    for table in (*_CHECKED_TABLES, *graph_tables_of(connection)):
        known = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        if known and "checksum" not in known:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")


def _add_topics(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'topics'").fetchone() is not None:
        return
    for statement in topic_statements():
        connection.execute(statement)


# What a step does beside its statements, because it depends on the tables that a file has.
_FUNCTIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    16: add_hop_tables,
    19: add_override_tables,
    20: add_starters,
    22: _add_checksums,
    24: add_subjects,
    25: _add_row_checksums,
    26: _add_topics,
}


def migrate_by_steps(connection: sqlite3.Connection, version: int) -> None:
    """Run every step after a version, in the transaction that is open."""
    for number in range(version + 1, SCHEMA_VERSION + 1):
        _execute(connection, MIGRATIONS[number])
        if number in _FUNCTIONS:
            _FUNCTIONS[number](connection)


def _execute(connection: sqlite3.Connection, text: str) -> None:
    statement = ""
    for part in text.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):  # the body of a trigger has statements of its own
            if statement.strip(" ;\n"):
                connection.execute(statement)
            statement = ""


def identify(connection: sqlite3.Connection, path: str) -> int:
    """The format version of a file, 0 for an empty one. Refuses files that are not ours or too new."""
    application, version, objects = _marks(connection)
    is_empty = (application, version, objects) == (0, 0, 0)
    if application != _APPLICATION_ID and not is_empty:
        raise Rejected("STORE_FOREIGN", f"{path} is a database of another program", "choose another file")
    if version > SCHEMA_VERSION:
        message = f"{path} was written by a newer release (format {version}; this one knows up to {SCHEMA_VERSION})"
        raise Rejected("STORE_TOO_NEW", message, "use the newer release, or restore a backup of the older format")
    return version


def _marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """The values that identify a file, read in one snapshot: another process may be creating it right now."""
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
    """Migrate a file to the current version, completely or not at all."""
    if identify(connection, path) == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have migrated the file while this one waited for the lock.
        version = identify(connection, path)
        statements = new_file_statements(SCHEMA_VERSION) if version == 0 else None
        if statements is None:
            migrate_by_steps(connection, version)
        else:
            _execute(connection, statements)
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

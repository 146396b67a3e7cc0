"""The tables of what is kept beside runs, as one step of the file's format.

Above it: `schema`, which says when the step is taken. What is in the tables is read and written by the modules
whose names begin with `platform_store`. A step that was released is never changed; what comes later is another step.
"""

from __future__ import annotations

__all__ = ["PLATFORM_TABLES"]

# An audit record is found by its place in its chain; the two indexes serve the questions that would otherwise walk a
# long chain for a handful of records. Both are partial, so that a record of an ordinary read is written once.
PLATFORM_TABLES = """
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

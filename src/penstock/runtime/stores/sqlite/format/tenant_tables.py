"""The step of the file's format that brings tenants, versions of definitions and the index of texts.

Above it: `schema`, which says when the step is taken; the connection must know `indexed_text` (`runs.text_index`).
What older files hold belongs to the default tenant. A step that was released is never changed.
"""

from __future__ import annotations

__all__ = ["TENANT_TABLES"]

# A version's number says when it was put. `workflows` has the newest version of each name that is not deleted. In what
# order older files got their definitions is known by their dates only; the one that a name stands for came last.
TENANT_TABLES = """
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

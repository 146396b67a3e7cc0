"""The tables that all graphs share, as two steps of the migrations.

Above it: `migrations`. Below it: nothing. The tables of each graph are made by `graphs.type_tables`.
"""

from __future__ import annotations

__all__ = ["GRAPH_TABLES", "TEXT_INDEX_TABLE"]

# The tables of node and edge types are made with each graph (`graphs.type_tables`). Numbers of graphs and branches are
# never used twice, because statements and snapshots name them.
GRAPH_TABLES = """
    CREATE TABLE graphs (
        graph INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        next_seq INTEGER NOT NULL,
        schema_version INTEGER NOT NULL,
        oldest_schema INTEGER NOT NULL DEFAULT 1,
        created_at INTEGER NOT NULL,
        created_by TEXT,
        deleted INTEGER NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX graphs_by_name ON graphs (tenant, name) WHERE deleted = 0;
    CREATE TABLE graph_schemas (
        graph INTEGER NOT NULL,
        version INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        source TEXT NOT NULL,
        schema BLOB NOT NULL,
        layout BLOB NOT NULL,
        PRIMARY KEY (graph, version)
    );
    CREATE TABLE graph_branches (
        branch INTEGER PRIMARY KEY AUTOINCREMENT,
        graph INTEGER NOT NULL,
        name TEXT NOT NULL,
        head_seq INTEGER NOT NULL,
        oldest_seq INTEGER NOT NULL DEFAULT 0,
        load_id TEXT,
        created_at INTEGER NOT NULL,
        created_by TEXT,
        updated_at INTEGER NOT NULL,
        deleted INTEGER NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX graph_branches_by_name ON graph_branches (graph, name) WHERE deleted = 0;
    CREATE TABLE graph_lineage (
        branch INTEGER NOT NULL,
        from_seq INTEGER NOT NULL,
        parent INTEGER,
        fork_seq INTEGER,
        PRIMARY KEY (branch, from_seq)
    ) WITHOUT ROWID;
    CREATE INDEX graph_lineage_by_parent ON graph_lineage (parent) WHERE parent IS NOT NULL;
    CREATE TABLE graph_commits (
        graph INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        commit_id TEXT NOT NULL,
        branch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        parent_seq INTEGER,
        merged_seq INTEGER,
        actor TEXT,
        message TEXT,
        at INTEGER NOT NULL,
        PRIMARY KEY (graph, seq)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX graph_commits_by_id ON graph_commits (graph, commit_id);
    CREATE INDEX graph_commits_by_branch ON graph_commits (branch, seq);
    CREATE TABLE graph_loads (
        load_id TEXT PRIMARY KEY,
        graph INTEGER NOT NULL,
        branch INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        purpose TEXT NOT NULL,
        mode TEXT,
        base_branch TEXT,
        branch_created INTEGER NOT NULL,
        records INTEGER NOT NULL,
        counts BLOB NOT NULL,
        ended INTEGER NOT NULL DEFAULT 0,
        touched_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE graph_garbage (
        table_name TEXT NOT NULL,
        column_name TEXT NOT NULL,
        PRIMARY KEY (table_name, column_name)
    ) WITHOUT ROWID;
    """
# The text indexes of columns (`graphs.searching`): with which tables of Unicode their words were made, and up to
# which row they are complete.
TEXT_INDEX_TABLE = """
    CREATE TABLE graph_text_indexes (
        table_name TEXT NOT NULL,
        column_name TEXT NOT NULL,
        unicode TEXT NOT NULL,
        built_to INTEGER NOT NULL,
        PRIMARY KEY (table_name, column_name)
    ) WITHOUT ROWID
    """

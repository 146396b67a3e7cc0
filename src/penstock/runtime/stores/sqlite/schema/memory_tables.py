"""The tables of memory, as one step of the migrations.

Above it: `migrations`. Below it: nothing.
"""

from __future__ import annotations

__all__ = ["MEMORY_TABLES"]

# Memory of agents and people (`memory`): values under keys, and the index of their words. `place` and `words` are the
# tokens of the index, whose content is the table. The staging table is empty but while deleted rows are overwritten.
_MEMORY_COLUMNS = """
        entry INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        scope TEXT NOT NULL,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        name TEXT NOT NULL,
        value BLOB NOT NULL,
        size INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        updated_by TEXT,
        expires_at INTEGER,
        untrusted INTEGER NOT NULL,
        place TEXT NOT NULL,
        words TEXT NOT NULL
    """
MEMORY_TABLES = f"""
    CREATE TABLE memory_entries ({_MEMORY_COLUMNS});
    CREATE UNIQUE INDEX memory_by_name ON memory_entries (tenant, scope, owner, session, name);
    CREATE INDEX memory_by_end ON memory_entries (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE memory_staging ({_MEMORY_COLUMNS});
    CREATE VIRTUAL TABLE memory_text USING fts5
        (place, words, content = 'memory_entries', content_rowid = 'entry', tokenize = 'ascii', detail = 'column');
    """

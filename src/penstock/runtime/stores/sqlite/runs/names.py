"""Whose a name is, in the SQLite file: of tools, prompts, resources and webhooks, per tenant.

A name belongs to the workflow that had it first, until its newest version does without it or it is deleted. It is asked
for and given in the transaction that stores the version, so that two processes cannot both get it.

Above it: `definitions`, `format.schema`. Below it: `definitions.claims`, which says what a document asks for.
"""

from __future__ import annotations

import sqlite3

import msgspec

from penstock.base.json import JsonObject
from penstock.definitions.claims import claimed_names
from penstock.runtime.ports.runs import DefinitionNameTaken, DefinitionRow
from penstock.runtime.stores.sqlite.columns import encode_json

__all__ = ["NAME_TABLE", "prepare_names", "release_names", "take_names"]

# In files of older releases several workflows may have a name; it belongs to the one whose first version came first.
NAME_TABLE = """
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

_OWNER = "SELECT workflow FROM claimed_names WHERE tenant = ? AND kind = ? AND name = ?"
_TAKE = "INSERT INTO claimed_names (tenant, kind, name, workflow) VALUES (?,?,?,?)"


def prepare_names(connection: sqlite3.Connection) -> None:
    """Teach a connection which names a document asks for; the step that makes the table needs to know."""

    def claimed(name: str, document: bytes) -> str:
        return encode_json([list(item) for item in claimed_names(name, _document(document))]).decode()

    connection.create_function("claimed_names", 2, claimed, deterministic=True)


def _document(stored: bytes) -> JsonObject:
    return msgspec.json.decode(stored, type=dict)


def take_names(connection: sqlite3.Connection, definition: DefinitionRow) -> DefinitionNameTaken | None:
    """Give a workflow the names of its newest version, and nothing else; the one that another has, if there is one."""
    tenant, workflow = definition.tenant, definition.name
    claimed = claimed_names(workflow, definition.document)
    for kind, name in claimed:
        found = connection.execute(_OWNER, (tenant, kind, name)).fetchone()
        if found is not None and found[0] != workflow:
            return DefinitionNameTaken(kind=kind, name=name, owner=str(found[0]))
    release_names(connection, workflow, tenant)
    connection.executemany(_TAKE, [(tenant, kind, name, workflow) for kind, name in claimed])
    return None


def release_names(connection: sqlite3.Connection, workflow: str, tenant: str) -> None:
    """Let others have the names of a workflow."""
    connection.execute("DELETE FROM claimed_names WHERE tenant = ? AND workflow = ?", (tenant, workflow))

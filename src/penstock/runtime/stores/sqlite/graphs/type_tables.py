"""The tables of node and edge types. This module has their DDL.

Columns of properties have no declared type: SQLite would convert values to it.

The indexes serve lookups by identifier, differences between commits, and what the schema asks for; hops have tables of
their own (`schema.edge_tables`). `ANALYZE` must never run on them: with statistics, SQLite reads whole
indexes for a search of a few steps.

Above it: `store`, `schemas`, `garbage`. Below it: `searching`, `schema.edge_tables`, sqlite3.
"""

from __future__ import annotations

import sqlite3

from penstock.graph.schema.model import EntityType, Index, Key, NodeType, Schema, Unique
from penstock.graph.sql.access import is_text_key
from penstock.graph.sql.layout import OPEN, Layout, Table, key_column
from penstock.runtime.stores.sqlite.graphs.searching.indexes import drop_text_indexes, update_text_indexes
from penstock.runtime.stores.sqlite.schema.edge_tables import create_hop_tables, create_override_table

__all__ = ["add_columns", "create_tables", "drop_table", "update_indexes"]


def create_tables(
    connection: sqlite3.Connection, layout: Layout, schema: Schema, *, known: Layout | None = None
) -> None:
    """Make the tables of a schema that are not there yet, and their columns and indexes."""
    old = {} if known is None else {table.name: table for table in known.tables.values()}
    entities: tuple[EntityType, ...] = (*schema.nodes, *schema.edges)
    for entity in entities:
        table = layout.tables[entity.name]
        before = old.get(table.name)
        if before is None:
            _create_table(connection, table)
        else:
            add_columns(connection, table, before)
        update_indexes(connection, table, entity)
        update_text_indexes(connection, table, entity)


def _create_table(connection: sqlite3.Connection, table: Table) -> None:
    name = table.name
    ends = "" if table.is_node else "src TEXT NOT NULL, dst TEXT NOT NULL, later INTEGER NOT NULL DEFAULT 0, "
    columns = "".join(f", {column}" for column in table.columns.values())
    connection.execute(
        f"CREATE TABLE {name} (rid INTEGER PRIMARY KEY, id TEXT NOT NULL, {ends}br INTEGER NOT NULL,"
        f" c_from INTEGER NOT NULL, c_to INTEGER NOT NULL, dead INTEGER NOT NULL, checksum INTEGER{columns})"
    )
    connection.execute(f"CREATE INDEX {name}_by_id ON {name} (id, br, c_from)")
    connection.execute(f"CREATE INDEX {name}_begun ON {name} (br, c_from)")
    connection.execute(f"CREATE INDEX {name}_ended ON {name} (br, c_to) WHERE c_to < {OPEN}")
    if not table.is_node:
        create_hop_tables(connection, name)
        create_override_table(connection, name)


def add_columns(connection: sqlite3.Connection, table: Table, before: Table) -> None:
    """Add the columns that a table did not have."""
    known = {str(column) for _, column, *_ in connection.execute(f"PRAGMA table_info({table.name})").fetchall()}
    for column in table.columns.values():
        if column not in known:
            connection.execute(f"ALTER TABLE {table.name} ADD COLUMN {column}")


def update_indexes(connection: sqlite3.Connection, table: Table, entity: EntityType) -> None:
    """Make the indexes that a type asks for, and drop those that it no longer asks for."""
    wanted = {}
    for columns in _indexed(table, entity):
        wanted[f"{table.name}_on_{'_'.join(columns)}"] = columns
    listed = connection.execute(f"PRAGMA index_list({table.name})").fetchall()
    existing = {str(name) for _, name, *_ in listed if str(name).startswith(f"{table.name}_on_")}
    for name in sorted(existing - set(wanted)):
        connection.execute(f"DROP INDEX {name}")
    for name, columns in wanted.items():
        if name not in existing:
            connection.execute(f"CREATE INDEX {name} ON {table.name} ({', '.join(columns)}, br, c_from)")


def _indexed(table: Table, entity: EntityType) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for each in entity.constraints:
        is_identifier = isinstance(each, Key) and isinstance(entity, NodeType) and is_text_key(entity)
        if isinstance(each, Key | Unique | Index) and not is_identifier:
            columns = tuple(key_column(table, name) for name in each.properties)
            if columns[:1] not in (("src",), ("dst",)):  # edges are found by these in tables of their own
                found.append(columns)
    return list(dict.fromkeys(found))


def drop_table(connection: sqlite3.Connection, name: str) -> None:
    """Drop the table of a type; its rows should have been removed before, piece by piece."""
    drop_text_indexes(connection, name)
    for each in (name, f"{name}_out", f"{name}_in", f"{name}_over"):
        connection.execute(f"DROP TABLE IF EXISTS {each}")

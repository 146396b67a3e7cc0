"""The tables in which edges are found by their ends, and the triggers that keep them. This module has their DDL.

For the edges of a table `g1_2` they are `g1_2_out` (by `src`) and `g1_2_in` (by `dst`), with one row for each version.
Triggers write them with every row. Only rows with `later` are left out when they are inserted: a load writes those of
its rows at its end, in the order of the tables.

Above it: `migrations`, `graphs.type_tables`, `graphs.garbage`, `graphs.loads.hops`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3

__all__ = ["ENDS", "HOP_COLUMNS", "add_hop_tables", "create_hop_tables", "empty_hop_tables"]

ENDS = (("src", "dst", "out"), ("dst", "src", "in"))
"""The end by which edges are found, the other one, and the name of the table."""

HOP_COLUMNS = "br, c_from, rid, c_to, dead"
"""What the tables have beside both ends."""


def create_hop_tables(connection: sqlite3.Connection, name: str) -> None:
    """Make both tables and the triggers for the edges of a table, which has to be empty."""
    for near, far, suffix in ENDS:
        connection.execute(
            f"CREATE TABLE {name}_{suffix} ({near} TEXT NOT NULL, br INTEGER NOT NULL, c_from INTEGER NOT NULL,"
            f" rid INTEGER NOT NULL, c_to INTEGER NOT NULL, dead INTEGER NOT NULL, {far} TEXT NOT NULL,"
            f" PRIMARY KEY ({near}, br, c_from, rid)) WITHOUT ROWID"
        )
    added = ended = removed = ""
    values = ", ".join(f"new.{column.strip()}" for column in HOP_COLUMNS.split(","))
    for near, far, suffix in ENDS:
        table = f"{name}_{suffix}"
        added += f"INSERT INTO {table} ({near}, {far}, {HOP_COLUMNS}) VALUES (new.{near}, new.{far}, {values}); "
        key = f"{near} = {{0}}.{near} AND br = {{0}}.br AND c_from = {{0}}.c_from AND rid = {{0}}.rid"
        ended += f"UPDATE {table} SET c_to = new.c_to, dead = new.dead WHERE {key.format('new')}; "
        removed += f"DELETE FROM {table} WHERE {key.format('old')}; "
    connection.execute(f"CREATE TRIGGER {name}_hops_added AFTER INSERT ON {name} WHEN new.later = 0 BEGIN {added}END")
    connection.execute(
        f"CREATE TRIGGER {name}_hops_moved AFTER UPDATE OF src, dst, br, c_from ON {name} BEGIN {removed}{added}END"
    )
    connection.execute(f"CREATE TRIGGER {name}_hops_ended AFTER UPDATE OF c_to, dead ON {name} BEGIN {ended}END")
    connection.execute(f"CREATE TRIGGER {name}_hops_removed AFTER DELETE ON {name} BEGIN {removed}END")


def empty_hop_tables(connection: sqlite3.Connection, name: str, limit: int) -> int:
    """Remove some rows of both tables, for edges that nobody reads any more; return how many.

    They go in their own order and without the triggers: with the edges, they would go in any order.
    """
    statement = "SELECT name FROM sqlite_master WHERE type = ? AND name GLOB ?"
    for (trigger,) in connection.execute(statement, ("trigger", f"{name}_hops_*")).fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    for near, _, suffix in ENDS:
        if connection.execute(statement, ("table", f"{name}_{suffix}")).fetchone() is None:
            continue
        key = f"{near}, br, c_from, rid"
        chosen = f"SELECT {key} FROM {name}_{suffix} LIMIT ?"
        removed = connection.execute(f"DELETE FROM {name}_{suffix} WHERE ({key}) IN ({chosen})", (limit,)).rowcount
        if removed:
            return removed
    return 0


def add_hop_tables(connection: sqlite3.Connection) -> None:
    """Give these tables to the edges of a file that has indexes instead."""
    statement = "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND name GLOB 'g[0-9]*_[0-9]*_out'"
    for index, name in connection.execute(statement).fetchall():
        connection.execute(f"DROP INDEX {index}")
        connection.execute(f"DROP INDEX {name}_in")
        connection.execute(f"ALTER TABLE {name} ADD COLUMN later INTEGER NOT NULL DEFAULT 0")
        create_hop_tables(connection, name)
        for near, far, suffix in ENDS:
            connection.execute(
                f"INSERT INTO {name}_{suffix} ({near}, {far}, {HOP_COLUMNS})"
                f" SELECT {near}, {far}, {HOP_COLUMNS} FROM {name} ORDER BY {near}, br, c_from, rid"
            )

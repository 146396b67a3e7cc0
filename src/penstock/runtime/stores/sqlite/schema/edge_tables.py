"""The tables in which edges are found by their ends, and the triggers that keep them. This module has their DDL.

For the edges of a table `g1_2` they are `g1_2_out` (by `src`) and `g1_2_in` (by `dst`), with one row for each version.
Triggers write them with every row. Only rows with `later` are left out when they are inserted: a load writes those of
its rows at its end, in the order of the tables.

A third table, `g1_2_over`, has what branches override: the row (`rid`) of an inherited edge, the branch that has
versions of its own of it (`br`), and the commit that wrote the first of them (`c_from`). The writer of versions
maintains it.

Above it: `migrations`, `graphs.type_tables`, `graphs.garbage`, `graphs.loads.hops`. Below it: sqlite3.
"""

from __future__ import annotations

import sqlite3

__all__ = [
    "ENDS",
    "HOP_COLUMNS",
    "add_hop_tables",
    "add_override_tables",
    "create_hop_tables",
    "create_override_table",
    "empty_hop_tables",
    "forget_overrides",
]

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


def create_override_table(connection: sqlite3.Connection, name: str) -> None:
    """Make the table of what branches override for the edges of a table."""
    connection.execute(
        f"CREATE TABLE {name}_over (rid INTEGER NOT NULL, br INTEGER NOT NULL, c_from INTEGER NOT NULL,"
        " PRIMARY KEY (rid, br)) WITHOUT ROWID"
    )
    connection.execute(f"CREATE INDEX {name}_over_begun ON {name}_over (br, c_from)")


def forget_overrides(connection: sqlite3.Connection, name: str, branch: int, seq: int | None, limit: int) -> int:
    """Remove some of what a branch overrides, all of it or what a commit began with; return how many.

    A table of nodes has nothing of the kind.
    """
    statement = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if connection.execute(statement, (f"{name}_over",)).fetchone() is None:
        return 0
    chosen = f"SELECT rid, br FROM {name}_over WHERE br = ?1 AND c_from = coalesce(?2, c_from) LIMIT ?3"
    return connection.execute(
        f"DELETE FROM {name}_over WHERE (rid, br) IN ({chosen})", (branch, seq, max(limit, 0))
    ).rowcount


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


def add_override_tables(connection: sqlite3.Connection) -> None:
    """Give the table of what branches override to the edges of a file that has none yet."""
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'g[0-9]*_[0-9]*_out'"
    forks = connection.execute("SELECT branch, parent, fork_seq FROM graph_lineage WHERE parent IS NOT NULL").fetchall()
    for (hops,) in connection.execute(statement).fetchall():
        name = hops.removesuffix("_out")
        create_override_table(connection, name)
        for branch, parent, fork_seq in forks:
            for below, seq in _inherited(connection, parent, fork_seq):
                connection.execute(
                    f"INSERT OR IGNORE INTO {name}_over (rid, br, c_from)"
                    f" SELECT low.rid, own.br, min(own.c_from) FROM {name} AS own CROSS JOIN {name} AS low"
                    " WHERE own.br = :branch AND low.id = own.id AND low.br = :below"
                    " AND low.c_from <= :seq AND low.c_to > :seq GROUP BY low.rid",
                    {"branch": branch, "below": below, "seq": seq},
                )


def _inherited(connection: sqlite3.Connection, branch: int, seq: int) -> list[tuple[int, int]]:
    """A branch at a commit and the branches below it, each with the last commit that is seen."""
    found = [(branch, seq)]
    statement = (
        "SELECT parent, fork_seq FROM graph_lineage WHERE branch = ? AND from_seq <= ? ORDER BY from_seq DESC LIMIT 1"
    )
    while (below := connection.execute(statement, found[-1]).fetchone()) is not None and below[0] is not None:
        found.append((below[0], below[1]))
    return found

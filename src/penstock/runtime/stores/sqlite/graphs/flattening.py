"""Flattening: a branch gets its own copy of what it inherits, so that reads of it look at one branch only.

It is a commit that changes nothing that anybody can see, written piece by piece.

Above it: `store`. Below it: `staging`, `versions`.
"""

from __future__ import annotations

import sqlite3

from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.sql.layout import OPEN, Table
from penstock.runtime.stores.sqlite.graphs.staging import Staged, require
from penstock.runtime.stores.sqlite.graphs.versions import (
    chain_parameters,
    in_order,
    insert_rows,
    row_columns,
    with_checksums,
)

__all__ = ["copy_piece", "cut_lineage", "end_dead"]


def copy_piece(
    connection: sqlite3.Connection, staged: Staged, table: Table, after_id: str, limit: int
) -> tuple[int, str]:
    """Copy some inherited rows after an identifier; return how many, and the last identifier."""
    require(connection, staged)
    chain = staged.chain(connection)
    columns = ", ".join(f"n.{each}" for each in row_columns(table))
    found = connection.execute(
        f"SELECT {columns} FROM {table.name} AS n {in_order(table)} WHERE n.id > :after_id AND n.br <> :b0"
        f" AND {visible(SQLITE, 'n', table, len(chain))} ORDER BY n.id LIMIT :most",
        {**chain_parameters(chain), "after_id": after_id, "most": limit},
    ).fetchall()
    names = ", ".join((*row_columns(table), "checksum", "br", "c_from", "c_to", "dead"))
    rows, tail = with_checksums(table, found), f"{staged.branch},{staged.seq},{OPEN},0"
    insert_rows(connection, f"INSERT INTO {table.name} ({names})", rows, tail)
    return len(found), found[-1][0] if found else after_id


def end_dead(connection: sqlite3.Connection, staged: Staged, table: Table, limit: int) -> int:
    """End some dead versions, which hide nothing any more; return how many."""
    require(connection, staged)
    dead = f"SELECT rid FROM {table.name} WHERE br = ? AND c_from < ? AND c_to = {OPEN} AND dead = 1 LIMIT ?"
    statement = f"UPDATE {table.name} SET c_to = ? WHERE rid IN ({dead})"
    return connection.execute(statement, (staged.seq, staged.branch, staged.seq, limit)).rowcount


def cut_lineage(connection: sqlite3.Connection, staged: Staged) -> None:
    """From this commit on, the branch inherits nothing."""
    statement = "INSERT INTO graph_lineage (branch, from_seq, parent, fork_seq) VALUES (?, ?, NULL, NULL)"
    connection.execute(statement, (staged.branch, staged.seq))

"""The ends of edges that a load wrote, entered at its end into the tables in which edges are found by them.

Edges come in any order. To enter each of them when it comes would change a page of both tables for each, most of them
again and again; in the order of the table, every page is written about once. They are sorted in a temporary file of a
connection of its own, which afterwards needs no view of the store: the log can be copied while the entries are written.

Above it: `staged_work`. Below it: `versions`, `schema.edge_tables`, `schema.files`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.sql.layout import OPEN, Table
from penstock.runtime.stores.sqlite.graphs.staging import Staged, require
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters, insert_rows
from penstock.runtime.stores.sqlite.schema.edge_tables import ENDS
from penstock.runtime.stores.sqlite.schema.files import connect

__all__ = ["SortedEnds", "write_ends"]

# Of the temporary file; sorting takes as much again.
_CACHE_KILOBYTES = 16_000

Entry = tuple[str, int, str]
"""The end by which an edge is found, its row, and its other end."""


class SortedEnds:
    """The edges that a commit wrote, in the order of one of their ends. Every method blocks; one thread at a time."""

    def __init__(self, path: str, staged: Staged, table: Table, near: str) -> None:
        self._staged = staged
        self.table = table
        self.near, self._far = next((one, other) for one, other, _ in ENDS if one == near)
        self._connection = connect(path, mode="ro")
        self._last = 0

    def sort(self) -> None:
        """Read and sort the edges."""
        self._connection.execute("PRAGMA temp_store = FILE")
        self._connection.execute(f"PRAGMA temp.cache_size = -{_CACHE_KILOBYTES}")
        self._connection.execute(
            f"CREATE TEMP TABLE sorted AS SELECT {self.near}, rid, {self._far} FROM {self.table.name}"
            f" WHERE br = ? AND c_from = ? AND later = 1 ORDER BY {self.near}, rid",
            (self._staged.branch, self._staged.seq),
        )

    def all_exist(self, nodes: Table) -> bool:
        """Whether there is a node for every end. Looked up once each and in order, that costs little."""
        chain = self._staged.chain(self._connection)
        node = (
            f"SELECT 1 FROM {nodes.name} AS n WHERE n.id = e.{self.near} AND {visible(SQLITE, 'n', nodes, len(chain))}"
        )
        statement = f"SELECT 1 FROM (SELECT DISTINCT {self.near} FROM sorted) AS e WHERE NOT EXISTS ({node}) LIMIT 1"
        return self._connection.execute(statement, chain_parameters(chain)).fetchone() is None

    def next(self, most: int) -> list[Entry]:
        """The next entries; none at the end."""
        statement = "SELECT * FROM sorted WHERE rowid > ? ORDER BY rowid LIMIT ?"
        found = self._connection.execute(statement, (self._last, most)).fetchall()
        self._last += len(found)
        return found

    def interrupt(self) -> None:
        """End what another thread does here, if it does anything."""
        self._connection.interrupt()

    def close(self) -> None:
        """Remove the temporary file."""
        self._connection.close()


def write_ends(
    connection: sqlite3.Connection, staged: Staged, table: Table, near: str, entries: Sequence[Entry]
) -> None:
    """Enter edges of a commit. An edge that was changed while it was loaded has been entered then."""
    require(connection, staged)
    far = next(other for one, other, _ in ENDS if one == near)
    insert_rows(
        connection,
        f"INSERT OR REPLACE INTO {table.hops(near)} ({near}, rid, {far}, br, c_from, c_to, dead)",
        entries,
        f"{staged.branch},{staged.seq},{OPEN},0",
    )

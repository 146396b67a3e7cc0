"""Writing row versions: an update ends the current version on its branch and begins another one.

A version that begins and ends in the same commit is never stored: it is changed in place. An entity that is deleted
on a branch leaves a dead version there if a branch below still has it; otherwise its version just ends.

Values are in their stored forms. Nothing is checked here; see `constraints`.

Above it: `mutating`, `staging`, `merging`. Below it: sqlite3, `penstock.graph.sql`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible, visible_edges
from penstock.graph.sql.layout import OPEN, Table
from penstock.runtime.stores.sqlite.graph_checksums import cells_checksum
from penstock.runtime.stores.sqlite.graphs.catalogue import Chain

__all__ = [
    "StoredRow",
    "VersionWriter",
    "chain_parameters",
    "in_order",
    "insert_rows",
    "row_columns",
    "with_checksums",
]

# Rows of one statement: more make it no faster. SQLite allows 32,766 parameters since 3.32.
_ROWS_PER_STATEMENT = 250
_PARAMETERS_MAX = 32_766

StoredRow = tuple[Any, ...]
"""Identifier, then the ends of an edge, then the columns of the table in the order of the layout."""


def row_columns(table: Table) -> tuple[str, ...]:
    """The columns of a `StoredRow`."""
    ends = () if table.is_node else ("src", "dst")
    return ("id", *ends, *table.columns.values())


def with_checksums(table: Table, rows: Iterable[StoredRow]) -> list[StoredRow]:
    """Rows with their checksums behind them. Rows without properties, of what is hidden, may be shorter."""
    ends = 1 if table.is_node else 3
    columns = row_columns(table)[ends:]
    # Columns in the order of their names, whichever the layout has: later schemas may have another.
    places = sorted(range(len(columns)), key=columns.__getitem__)
    named = [(columns[place], place + ends) for place in places]

    def checksum(row: StoredRow) -> int:
        return cells_checksum(row[:ends], [(name, row[place]) for name, place in named] if len(row) > ends else ())

    return [(*row, checksum(row)) for row in rows]


def chain_parameters(chain: Chain, prefix: str = "") -> dict[str, int]:
    """The values of a view for `visible`."""
    found: dict[str, int] = {}
    for level, (branch, seq) in enumerate(chain):
        found[f"{prefix}b{level}"], found[f"{prefix}s{level}"] = branch, seq
    return found


def in_order(table: Table) -> str:
    """How a page of a table is read in the order of identifiers.

    By itself SQLite would find all rows of the branches and sort them, for every page.
    """
    return f"INDEXED BY {table.name}_by_id"


def insert_rows(connection: sqlite3.Connection, insert: str, rows: Sequence[Sequence[Any]], tail: str) -> None:
    """Insert rows of equal length, many with each statement; `tail` has the values that all of them have.

    Python's lock is released once for each statement. With a statement for each row, this thread would compete for it
    with the event loop after every row.
    """
    if not rows:
        return
    size = len(rows[0])
    at_once = max(1, min(_ROWS_PER_STATEMENT, _PARAMETERS_MAX // size))
    marks = f"({'?,' * size}{tail})"
    whole = f"{insert} VALUES {','.join([marks] * at_once)}"
    end = len(rows) - len(rows) % at_once
    for start in range(0, end, at_once):
        connection.execute(whole, list(chain.from_iterable(rows[start : start + at_once])))
    if end < len(rows):
        connection.executemany(f"{insert} VALUES {marks}", rows[end:])


class VersionWriter:
    """Writes versions of one commit. `chain` is the view with that commit as the head of its branch."""

    def __init__(self, connection: sqlite3.Connection, chain: Chain, *, later: bool = False) -> None:
        """With `later`, edges are entered into the tables of their ends by somebody else."""
        self._connection = connection
        self._later = later
        self._chain = chain
        self._branch, self._seq = chain[0]

    def visible_rows(self, table: Table, ids: Sequence[str]) -> list[StoredRow]:
        """The rows of entities as this commit leaves them so far."""
        columns = ", ".join(f"n.{column}" for column in row_columns(table))
        return self._visible(table, ids, columns, self._chain, "")

    def visible_ids(self, table: Table, ids: Sequence[str]) -> set[str]:
        """Those of some identifiers that exist."""
        return {found[0] for found in self._visible(table, ids, "n.id", self._chain, "")}

    def visible_among(self, table: Table, own: Mapping[str, tuple[int, int, int]], ids: Sequence[str]) -> set[str]:
        """Those of some identifiers that exist, given what `own` says of them."""
        if len(self._chain) == 1:
            return {id_ for id_, (_, _, dead) in own.items() if not dead}
        return self.visible_ids(table, ids)

    def edges_at(self, table: Table, end: str, ids: Sequence[str]) -> list[str]:
        """The edges that begin (`src`) or end (`dst`) at some nodes."""
        if not ids:
            return []
        join = visible_edges(SQLITE, "e", table, end, len(self._chain), whole=True)
        sources = " CROSS JOIN ".join(join.sources)
        listed = f"e.{end} IN (SELECT value FROM json_each(:ids))"
        statement = f"SELECT {join.row}.id FROM {sources} WHERE {listed} AND {join.condition}"
        given = {"ids": json.dumps(list(ids)), **chain_parameters(self._chain)}
        return [found[0] for found in self._connection.execute(statement, given).fetchall()]

    def _visible(self, table: Table, ids: Sequence[str], columns: str, chain: Chain, prefix: str) -> list[StoredRow]:
        if not ids:
            return []
        condition = visible(SQLITE, "n", table, len(chain), prefix=prefix)
        # One identifier is the usual case, and an equality is planned better than a list.
        listed = "n.id = :ids" if len(ids) == 1 else "n.id IN (SELECT value FROM json_each(:ids))"
        statement = f"SELECT {columns} FROM {table.name} AS n WHERE {listed} AND {condition}"
        given = ids[0] if len(ids) == 1 else json.dumps(list(ids))
        return self._connection.execute(statement, {"ids": given, **chain_parameters(chain, prefix)}).fetchall()

    def insert(self, table: Table, rows: Sequence[StoredRow]) -> None:
        """Store entities that are known to be new on this branch."""
        columns = row_columns(table)
        later = self._later and not table.is_node
        names = ", ".join((*columns, "checksum", "br", "c_from", "c_to", "dead", *(["later"] if later else [])))
        tail = f"{self._branch},{self._seq},{OPEN},0{',1' if later else ''}"
        insert_rows(self._connection, f"INSERT INTO {table.name} ({names})", with_checksums(table, rows), tail)

    def put(
        self, table: Table, rows: Sequence[StoredRow], own: Mapping[str, tuple[int, int, int]] | None = None
    ) -> None:
        """Store entities, in place of those with the same identifiers. Of two with one identifier, the last counts.

        `own` is what `own` gives for their identifiers, if the caller knows it.
        """
        last = {row[0]: row for row in rows}
        if own is None:
            own = self.own(table, list(last))
        changed = with_checksums(table, [row for row in last.values() if self._is_new(own.get(row[0]))])
        in_place = [(*row[1:], own[row[0]][0]) for row in changed]
        if in_place:
            columns = (*row_columns(table)[1:], "checksum")
            changes = ", ".join([*(f"{column} = ?" for column in columns), "dead = 0"])
            self._connection.executemany(f"UPDATE {table.name} SET {changes} WHERE rid = ?", in_place)
        self._end(table, [rid for rid, c_from, _ in own.values() if c_from != self._seq])
        self._override(table, [id_ for id_ in last if id_ not in own])
        self.insert(table, [row for row in last.values() if not self._is_new(own.get(row[0]))])

    def remove(self, table: Table, ids: Sequence[str]) -> int:
        """Delete entities that exist; return how many did."""
        existing = self.visible_ids(table, ids)
        if not existing:
            return 0
        own = self.own(table, list(existing))
        below = self._below(table, list(existing))
        self._end(table, [rid for rid, c_from, _ in own.values() if c_from != self._seq])
        made_now = {id_: rid for id_, (rid, c_from, _) in own.items() if c_from == self._seq}
        gone = [(rid,) for id_, rid in made_now.items() if id_ not in below]
        self._connection.executemany(f"DELETE FROM {table.name} WHERE rid = ?", gone)
        hidden = [(rid,) for id_, rid in made_now.items() if id_ in below]
        self._connection.executemany(f"UPDATE {table.name} SET dead = 1 WHERE rid = ?", hidden)
        self._hide(table, [row for id_, row in below.items() if id_ not in made_now])
        return len(existing)

    def _is_new(self, own: tuple[int, int, int] | None) -> bool:
        return own is not None and own[1] == self._seq

    def own(self, table: Table, ids: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """The current versions on this very branch: row, first commit, dead or not."""
        if not ids:
            return {}
        listed = "id = ?" if len(ids) == 1 else "id IN (SELECT value FROM json_each(?))"
        statement = f"SELECT id, rid, c_from, dead FROM {table.name} WHERE {listed} AND br = ? AND c_to = {OPEN}"
        given = ids[0] if len(ids) == 1 else json.dumps(list(ids))
        found = self._connection.execute(statement, (given, self._branch)).fetchall()
        return {id_: (rid, c_from, dead) for id_, rid, c_from, dead in found}

    def _below(self, table: Table, ids: Sequence[str]) -> dict[str, StoredRow]:
        """The rows that the branches below show."""
        if len(self._chain) == 1:
            return {}
        columns = "n.id" if table.is_node else "n.id, n.src, n.dst"
        return {row[0]: row for row in self._visible(table, ids, columns, self._chain[1:], "")}

    def _end(self, table: Table, rids: list[int]) -> None:
        given = [(self._seq, rid) for rid in rids]
        self._connection.executemany(f"UPDATE {table.name} SET c_to = ? WHERE rid = ?", given)

    def _override(self, table: Table, ids: Sequence[str]) -> None:
        """Note that this branch has versions of its own, from this commit on, of the edges that it inherits."""
        if table.is_node or len(self._chain) == 1 or not ids:
            return
        below = self._chain[1:]
        self._connection.execute(
            f"INSERT OR IGNORE INTO {table.overrides} (rid, br, c_from) SELECT n.rid, :branch, :seq"
            f" FROM {table.name} AS n WHERE n.id IN (SELECT value FROM json_each(:ids))"
            f" AND {visible(SQLITE, 'n', table, len(below))}",
            {
                **chain_parameters(below),
                "ids": json.dumps(list(ids)),
                "branch": self._branch,
                "seq": self._seq,
            },
        )

    def _hide(self, table: Table, rows: list[StoredRow]) -> None:
        self._override(table, [row[0] for row in rows])
        ends = "" if table.is_node else "src, dst, "
        marks = "?,?" if table.is_node else "?,?,?,?"
        tail = f"{self._branch},{self._seq},{OPEN},1"
        statement = f"INSERT INTO {table.name} (id, {ends}checksum, br, c_from, c_to, dead) VALUES ({marks},{tail})"
        self._connection.executemany(statement, with_checksums(table, rows))

"""Compares rows of a file with their checksums, and indexes with what they were made of.

Files of earlier releases have rows without checksums, which are counted, or no checksums at all.

Above it: `integrity`. Below it: `tables.checks`, sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.runtime.stores.sqlite.graph_checksums import cells_checksum, graph_rows, graph_tables_of
from penstock.runtime.stores.sqlite.schema.edge_tables import ENDS, HOP_COLUMNS
from penstock.runtime.tables.checks import ROW_CHANGED, changed_names, changed_rows, other_versions
from penstock.runtime.tables.checksums import CHECKED

__all__ = ["RowChecks"]


@dataclass(slots=True)
class RowChecks:
    """The checks of one connection. `unchecked` counts the rows that have no checksum."""

    connection: sqlite3.Connection
    unchecked: int = 0

    def problems(self) -> Iterator[tuple[str, str]]:
        """Every row that is not what was written, as codes and messages."""
        factory = self.connection.text_factory
        # A changed byte may leave a text that is not UTF-8. It has to be read to be compared.
        self.connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        try:
            for table in CHECKED:
                yield from self._changed_rows(table)
            for table in graph_tables_of(self.connection):
                yield from self._changed_graph_rows(table)
                yield from self._changed_hops(table)
            yield from self._changed_names()
        finally:
            self.connection.text_factory = factory

    def _columns(self, table: str) -> list[str]:
        return [str(name) for _, name, *_ in self.connection.execute(f"PRAGMA table_info({table})").fetchall()]

    def _changed_rows(self, table: str) -> Iterator[tuple[str, str]]:
        if "checksum" not in self._columns(table):
            return
        keys = [str(row[1]) for row in self.connection.execute(f"PRAGMA table_info({table})").fetchall() if row[5]]
        for problem in changed_rows(self.connection.execute, table, keys):
            if problem is None:
                self.unchecked += 1
            else:
                yield problem

    def _changed_graph_rows(self, table: str) -> Iterator[tuple[str, str]]:
        if "checksum" not in self._columns(table):
            return
        for row in graph_rows(self.connection, table):
            if row.checksum is None:
                self.unchecked += 1
                continue
            try:
                same = cells_checksum(row.identity, row.cells) == row.checksum
            except UnicodeEncodeError:
                same = False
            if not same:
                yield (
                    ROW_CHANGED,
                    f"table {table}, rid {row.rid}, id {row.identity[0]!r}: the row is not what was written",
                )

    def _changed_hops(self, table: str) -> Iterator[tuple[str, str]]:
        """Entries of edges at their ends that differ from the edges."""
        for near, far, suffix in ENDS:
            hops = f"{table}_{suffix}"
            if not self._columns(hops):
                continue
            names = (near, far, *(name.strip() for name in HOP_COLUMNS.split(",")))
            differs = " OR ".join(f"h.{name} IS NOT e.{name}" for name in names)
            statement = f"SELECT h.rid FROM {hops} AS h LEFT JOIN {table} AS e ON e.rid = h.rid WHERE {differs}"
            for (rid,) in self.connection.execute(statement):
                yield "INDEX_DIFFERS", f"table {hops}, rid {rid}: it differs from the edge in {table}"

    def _changed_names(self) -> Iterator[tuple[str, str]]:
        """Names that differ from the versions and documents that they were taken from."""
        if "number" not in self._columns("workflows"):
            return  # a format without versions
        yield from other_versions(self.connection.execute)
        if self._columns("claimed_names"):
            yield from changed_names(self.connection.execute)

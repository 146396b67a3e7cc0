"""Checksums of the rows of graphs, whose tables have columns that come and go with the schema.

Above it: graphs, `maintenance.checksums`. Below it: sqlite3.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

from penstock.base.encoding import SafePacker

__all__ = ["GraphRow", "cells_checksum", "graph_rows", "graph_tables_of", "renew_checksums"]

_ENCODER = SafePacker()
# Of a table of nodes or edges, beside identifiers, ends and properties.
_OF_VERSION = frozenset({"rid", "later", "br", "c_from", "c_to", "dead", "checksum"})
_ENDS = ("id", "src", "dst")


def cells_checksum(identity: Sequence[object], cells: Iterable[tuple[str, object]]) -> int:
    """The checksum of a row of a graph: its identifier and ends, and every column that has a value, in order."""
    return crc32(_ENCODER.encode((identity, [cell for cell in cells if cell[1] is not None])))


class GraphRow(NamedTuple):
    """A row of a graph, as it is read to be compared with its checksum."""

    rid: int
    checksum: int | None
    identity: tuple[object, ...]
    cells: list[tuple[str, object]]


def graph_tables_of(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The tables of nodes and edges of every graph."""
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'g[0-9]*_[0-9]*' ORDER BY name"
    found = (str(name) for (name,) in connection.execute(statement).fetchall())
    return tuple(name for name in found if name.count("_") == 1 and name.partition("_")[2].isdigit())


def graph_rows(connection: sqlite3.Connection, table: str, rids: Sequence[int] | None = None) -> Iterator[GraphRow]:
    """The rows of a table of nodes or edges, or some of them, in order."""
    known = [str(name) for _, name, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()]
    ends = [name for name in _ENDS if name in known]
    properties = sorted(name for name in known if name not in _OF_VERSION and name not in _ENDS)
    some = "" if rids is None else " WHERE rid IN (SELECT value FROM json_each(?))"
    given = () if rids is None else (json.dumps([*rids]),)
    listed = ", ".join(["rid", "checksum", *ends, *properties])
    for rid, checksum, *values in connection.execute(f"SELECT {listed} FROM {table}{some} ORDER BY rid", given):
        cells = list(zip(properties, values[len(ends) :], strict=True))
        yield GraphRow(rid, checksum, tuple(values[: len(ends)]), cells)


def renew_checksums(connection: sqlite3.Connection, table: str, rids: Sequence[int]) -> None:
    """Write the checksums of rows of a graph that were changed in place. Rows that had none get none."""
    changed = [row for row in graph_rows(connection, table, rids) if row.checksum is not None]
    given = [(cells_checksum(row.identity, row.cells), row.rid) for row in changed]
    connection.executemany(f"UPDATE {table} SET checksum = ? WHERE rid = ?", given)

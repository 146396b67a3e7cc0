"""Loads: rows of nodes and edges as one commit, written piece by piece.

Edges are not found by their ends until all of them are there; see `hops`.

Above it: `staged_work`. Below it: `preparing`, `staging`, `versions`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.base import limits
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.versions.entities import LoadMode, Violation, ViolationKind
from penstock.runtime.stores.sqlite.graphs.catalogue import StoredSchema
from penstock.runtime.stores.sqlite.graphs.loads.preparing import Prepared, violation_of
from penstock.runtime.stores.sqlite.graphs.staging import Staged, count_records, require
from penstock.runtime.stores.sqlite.graphs.versions import VersionWriter, chain_parameters, in_order

__all__ = ["overwritten_ids", "remove_piece", "write_piece"]


def write_piece(
    connection: sqlite3.Connection,
    stored: StoredSchema,
    staged: Staged,
    type_name: str,
    piece: Sequence[Prepared],
    at: int,
) -> list[Violation]:
    """Write rows of a load. If they are refused, some of them may have been written: the load is then undone."""
    writer = VersionWriter(connection, staged.chain(connection), later=True)
    table = stored.layout.tables[type_name]
    rows = [each.row for each in piece if each.fresh]
    if rows:
        writer.insert(table, rows)
    known = [each for each in piece if not each.fresh]
    if known:
        own = writer.own(table, [each.row[0] for each in known])
        if staged.mode == LoadMode.APPEND:
            violations = _existing(writer.visible_among(table, own, known_ids(known)), stored, type_name, known)
            if violations:
                return violations
        writer.put(table, [each.row for each in known], own)
    count_records(connection, staged, {type_name: len(piece)}, at)
    return []


def known_ids(piece: Sequence[Prepared]) -> list[str]:
    """The identifiers of some rows."""
    return [each.row[0] for each in piece]


def _existing(seen: set[str], stored: StoredSchema, type_name: str, piece: Sequence[Prepared]) -> list[Violation]:
    """Rows whose identifiers exist, in the graph or earlier in the load."""
    entity = stored.schema.entity_type(type_name)
    assert entity is not None
    violations = []
    for each in piece:
        identifier = each.row[0]
        if identifier in seen:
            message = f"the {type_name} {identifier} already exists"
            violation = violation_of(ViolationKind.KEY_CONFLICT, entity, identifier, message)
            violations.append(replace(violation, record=each.number))
        seen.add(identifier)
    violations.sort(key=lambda each: each.record or 0)
    return violations[: limits.GRAPH_VIOLATIONS_MAX]


def overwritten_ids(
    connection: sqlite3.Connection, stored: StoredSchema, staged: Staged, type_name: str, after: tuple[str, int]
) -> list[str]:
    """So many entities of a type, after an identifier, that a load in the mode `overwrite` did not write itself."""
    table = stored.layout.tables[type_name]
    chain = staged.chain(connection)
    statement = (
        f"SELECT n.id FROM {table.name} AS n {in_order(table)} WHERE {visible(SQLITE, 'n', table, len(chain))}"
        " AND NOT (n.br = :b0 AND n.c_from = :s0) AND n.id > :after_id ORDER BY n.id LIMIT :most"
    )
    given = {**chain_parameters(chain), "after_id": after[0], "most": after[1]}
    return [found[0] for found in connection.execute(statement, given).fetchall()]


def remove_piece(
    connection: sqlite3.Connection, stored: StoredSchema, staged: Staged, type_name: str, ids: Iterable[str]
) -> None:
    """Delete entities in the commit of a load."""
    require(connection, staged)
    VersionWriter(connection, staged.chain(connection)).remove(stored.layout.tables[type_name], list(ids))

"""Loads: records of nodes and edges as one commit, written piece by piece.

Above it: `store`. Below it: `staging`, `versions`, `constraints`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from penstock.base import limits
from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.schema.model import EdgeType, EntityType, NodeType
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.typing.patterns import EntityKind
from penstock.graph.versions.checking import check_identifier, check_values, kind_of
from penstock.graph.versions.entities import LoadMode, Violation, ViolationKind
from penstock.graph.versions.identity import key_of
from penstock.runtime.ports.graphs import Stamp
from penstock.runtime.stores.sqlite.graphs.catalogue import StoredSchema
from penstock.runtime.stores.sqlite.graphs.mutating import stored_row
from penstock.runtime.stores.sqlite.graphs.staging import Staged, count_records, require
from penstock.runtime.stores.sqlite.graphs.versions import StoredRow, VersionWriter, chain_parameters

__all__ = ["Piece", "overwritten_ids", "prepare", "remove_piece", "write_piece"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one type, ready to be written. `fresh` ones have generated identifiers, which cannot exist."""

    type_name: str
    rows: tuple[StoredRow, ...]
    numbers: tuple[int, ...]
    fresh: bool


def prepare(
    stored: StoredSchema, records: Sequence[GraphRecord], first_number: int, stamp: Stamp
) -> tuple[list[Piece], list[Violation]]:
    """Check records one by one, and group them into pieces."""
    violations: list[Violation] = []
    groups: dict[tuple[str, bool], list[tuple[StoredRow, int]]] = {}
    for number, record in enumerate(records, first_number):
        found = _prepare_one(stored, record, stamp)
        if isinstance(found, list):
            violations += [replace(each, record=number) for each in found]
            if len(violations) >= limits.GRAPH_VIOLATIONS_MAX:
                break
            continue
        row, fresh = found
        groups.setdefault((record.type.name, fresh), []).append((row, number))
    pieces = []
    size = limits.GRAPH_LOAD_PIECE_ROWS_AT_ONCE
    for (type_name, fresh), rows in groups.items():
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            pieces.append(Piece(type_name, tuple(row for row, _ in part), tuple(at for _, at in part), fresh))
    return pieces, violations


def _prepare_one(stored: StoredSchema, record: GraphRecord, stamp: Stamp) -> tuple[StoredRow, bool] | list[Violation]:
    schema = stored.schema
    entity: EntityType | None = (
        schema.node_types.get(record.type.name)
        if isinstance(record, NodeRecord)
        else schema.edge_types.get(record.type.name)
    )
    if entity is None:
        kind = EntityKind.NODE if isinstance(record, NodeRecord) else EntityKind.EDGE
        message = f"the schema has no {kind.value} type {record.type.name}"
        return [
            Violation(
                kind=ViolationKind.UNKNOWN_TYPE,
                entity_kind=kind,
                type_name=record.type.name,
                entity_id=record.id,
                message=message,
            )
        ]
    key = key_of(entity, record.properties) if isinstance(entity, NodeType) else None
    violations = check_values(entity, record.properties, key or record.id)
    identifier = key or record.id or stamp.new_id()
    violations += check_identifier(entity, identifier)
    if key is not None and record.id is not None and record.id != key:
        message = f"the identifier {record.id} is not what the key gives, which is {key}"
        violations.append(_violation(ViolationKind.VALUE, entity, record.id, message))
    ends: tuple[str, ...] = ()
    if isinstance(record, EdgeRecord):
        ends = (record.source, record.target)
    if violations:
        return violations
    table = stored.layout.tables[entity.name]
    fresh = key is None and record.id is None
    return stored_row(table, entity, (identifier, *ends), record.properties), fresh


def write_piece(
    connection: sqlite3.Connection, stored: StoredSchema, staged: Staged, piece: Piece, at: int
) -> list[Violation]:
    """Write a piece of a load. If it is refused, some of it may have been written: the load is then undone."""
    writer = VersionWriter(connection, staged.chain(connection))
    table = stored.layout.tables[piece.type_name]
    if piece.fresh:
        writer.insert(table, piece.rows)
    else:
        if staged.mode == LoadMode.APPEND:
            violations = _existing(writer, stored, piece)
            if violations:
                return violations
        writer.put(table, piece.rows)
    count_records(connection, staged, {piece.type_name: len(piece.rows)}, at)
    return []


def _existing(writer: VersionWriter, stored: StoredSchema, piece: Piece) -> list[Violation]:
    """Records whose identifiers exist, in the graph or earlier in the load."""
    entity = stored.schema.entity_type(piece.type_name)
    assert entity is not None
    seen = writer.visible_ids(stored.layout.tables[piece.type_name], [row[0] for row in piece.rows])
    violations = []
    for row, number in zip(piece.rows, piece.numbers, strict=True):
        if row[0] in seen:
            message = f"there is a {piece.type_name} {row[0]} already"
            violation = _violation(ViolationKind.KEY_CONFLICT, entity, row[0], message)
            violations.append(replace(violation, record=number))
        seen.add(row[0])
    return violations[: limits.GRAPH_VIOLATIONS_MAX]


def overwritten_ids(
    connection: sqlite3.Connection, stored: StoredSchema, staged: Staged, type_name: str, after_id: str
) -> list[str]:
    """Some entities of a type, after an identifier, that a load in the mode `overwrite` did not write itself."""
    table = stored.layout.tables[type_name]
    chain = staged.chain(connection)
    statement = (
        f"SELECT n.id FROM {table.name} AS n WHERE {visible(SQLITE, 'n', table, len(chain))}"
        " AND NOT (n.br = :b0 AND n.c_from = :s0) AND n.id > :after_id ORDER BY n.id LIMIT :most"
    )
    given = {**chain_parameters(chain), "after_id": after_id, "most": limits.GRAPH_LOAD_PIECE_ROWS_AT_ONCE}
    return [found[0] for found in connection.execute(statement, given).fetchall()]


def remove_piece(
    connection: sqlite3.Connection, stored: StoredSchema, staged: Staged, type_name: str, ids: Iterable[str]
) -> None:
    """Delete entities in the commit of a load."""
    require(connection, staged)
    VersionWriter(connection, staged.chain(connection)).remove(stored.layout.tables[type_name], list(ids))


def _violation(kind: ViolationKind, entity: NodeType | EdgeType, entity_id: str, message: str) -> Violation:
    return Violation(
        kind=kind, entity_kind=kind_of(entity), type_name=entity.name, entity_id=entity_id, message=message
    )

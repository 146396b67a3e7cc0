"""Differences between two views, found by the versions that lie between them.

Of a branch that both views look at, only versions that began or ended between the two commits can make a difference; of
a branch that only one of them looks at, all its valid versions can. So a difference costs as much as was changed.

Above it: `store`, `merging`. Below it: sqlite3, `penstock.graph.sql`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from penstock.graph.records import EdgeRecord, GraphRecord, NodeRecord
from penstock.graph.schema.model import EntityType, NodeType
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.sql.layout import OPEN, Table
from penstock.graph.sql.statement import decode_value
from penstock.graph.versions.checking import kind_of
from penstock.graph.versions.entities import ChangeKind, EntityChange
from penstock.runtime.stores.sqlite.graphs.catalogue import Chain, StoredSchema
from penstock.runtime.stores.sqlite.graphs.versions import StoredRow, chain_parameters, row_columns

__all__ = ["changed_rows", "entity_changes", "record_of"]


def changed_rows(
    connection: sqlite3.Connection,
    table: Table,
    before: Chain,
    after: Chain,
    *,
    after_id: str = "",
) -> Iterator[tuple[str, StoredRow | None, StoredRow | None]]:
    """Entities of one table that differ, by identifier: the rows before and after."""
    candidates, parameters = _candidates(table, before, after)
    if not candidates:
        return
    columns = row_columns(table)
    shown = ", ".join([*(f"x.{each}" for each in columns), *(f"y.{each}" for each in columns)])
    statement = (
        f"SELECT c.id, {shown} FROM ({candidates}) AS c"
        f" LEFT JOIN {table.name} AS x ON x.id = c.id AND {visible(SQLITE, 'x', table, len(before), prefix='x')}"
        f" LEFT JOIN {table.name} AS y ON y.id = c.id AND {visible(SQLITE, 'y', table, len(after), prefix='y')}"
        " WHERE c.id > :after_id AND x.rid IS NOT y.rid ORDER BY c.id"
    )
    given = {**parameters, **chain_parameters(before, "x"), **chain_parameters(after, "y"), "after_id": after_id}
    width = len(columns)
    for found in connection.execute(statement, given):
        old, new = found[1 : width + 1], found[width + 1 :]
        if old != new:
            yield found[0], None if old[0] is None else old, None if new[0] is None else new


def _candidates(table: Table, before: Chain, after: Chain) -> tuple[str, dict[str, int]]:
    """The identifiers that may differ."""
    one, other = dict(before), dict(after)
    selects: list[str] = []
    given: dict[str, int] = {}
    for number, branch in enumerate(dict.fromkeys((*one, *other))):
        given[f"br{number}"] = branch
        seqs = sorted(chain[branch] for chain in (one, other) if branch in chain)
        given[f"lo{number}"], given[f"hi{number}"] = seqs[0], seqs[-1]
        here = f"SELECT id FROM {table.name} WHERE br = :br{number}"
        if len(seqs) == 1:
            selects.append(f"{here} AND c_from <= :hi{number} AND c_to > :lo{number}")
        elif seqs[0] < seqs[1]:
            selects.append(f"{here} AND c_from > :lo{number} AND c_from <= :hi{number}")
            selects.append(f"{here} AND c_to > :lo{number} AND c_to <= :hi{number} AND c_to < {OPEN}")
    return " UNION ".join(selects), given


def entity_changes(
    connection: sqlite3.Connection,
    stored: StoredSchema,
    before: Chain,
    after: Chain,
    *,
    start: tuple[int, str] = (0, ""),
) -> Iterator[tuple[tuple[int, str], EntityChange]]:
    """Every entity that differs, nodes before edges, by type and identifier; each with its place, to go on from."""
    entities: list[EntityType] = [*stored.schema.nodes, *stored.schema.edges]
    for number in range(start[0], len(entities)):
        entity = entities[number]
        table = stored.layout.tables[entity.name]
        after_id = start[1] if number == start[0] else ""
        for identifier, old, new in changed_rows(connection, table, before, after, after_id=after_id):
            kind = ChangeKind.UPDATED
            if old is None or new is None:
                kind = ChangeKind.INSERTED if old is None else ChangeKind.DELETED
            change = EntityChange(
                entity_kind=kind_of(entity),
                type_name=entity.name,
                entity_id=identifier,
                kind=kind,
                before=None if old is None else record_of(entity, table, old),
                after=None if new is None else record_of(entity, table, new),
            )
            yield (number, identifier), change


def record_of(entity: EntityType, table: Table, row: StoredRow) -> GraphRecord:
    """A row as a record. It has its identifier unless that is the key."""
    first = 1 if table.is_node else 3
    values = {
        name: decode_value(cell, entity.by_name[name].type)
        for name, cell in zip(table.columns, row[first:], strict=True)
    }
    if isinstance(entity, NodeType):
        return NodeRecord(entity, values, row[0] if entity.key is None else None)
    return EdgeRecord(entity, row[1], row[2], values, row[0])

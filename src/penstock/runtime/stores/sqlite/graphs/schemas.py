"""Schema changes: whether the data allow them, and how they are applied.

Adding types, properties and indexes, and renaming, change no rows. A soft drop only leaves the names out of the new
schema. A hard drop also ends older snapshots; the rows are removed later, piece by piece (`garbage`).

Above it: `store`. Below it: `catalogue`, `type_tables`, `constraints`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from penstock.base import limits
from penstock.graph.schema.model import EntityType, Schema, Unique
from penstock.graph.schema.plan import SchemaPlan, plan_schema
from penstock.graph.schema.steps import (
    AddConstraint,
    AddProperty,
    ChangeCardinality,
    DropMode,
    DropProperty,
    DropType,
    RenameType,
)
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.sql.layout import Layout, next_layout
from penstock.graph.sql.statement import decode_value
from penstock.graph.versions.checking import check_values
from penstock.graph.versions.entities import Violation
from penstock.runtime.ports.graphs import (
    MAIN,
    BranchBusy,
    GraphNotFound,
    GraphRef,
    HeadMoved,
    SchemaApplied,
    SchemaRefused,
    Stamp,
)
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Catalogue,
    Chain,
    Graph,
    StoredSchema,
    add_commit,
    branch_named,
    chain_at,
    commit_id_at,
    find_graph,
    insert_schema,
    live_branches,
    take_seq,
)
from penstock.runtime.stores.sqlite.graphs.constraints import check_everything
from penstock.runtime.stores.sqlite.graphs.type_tables import create_tables
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters

__all__ = ["SchemaChange", "apply_change", "plan_change"]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A plan that the data allowed, when the branches had these heads."""

    plan: SchemaPlan
    version: int
    heads: tuple[tuple[int, int], ...]


def plan_change(
    connection: sqlite3.Connection, catalogue: Catalogue, ref: GraphRef, schema: Schema, *, allow_data_loss: bool
) -> SchemaChange | SchemaRefused | BranchBusy | GraphNotFound:
    """Compare schemas, and look through the data of every branch if a step may fail on them."""
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    stored = catalogue.schema(connection, graph.graph, graph.schema_version)
    plan = plan_schema(stored.schema, schema, drop_mode=DropMode.HARD if allow_data_loss else DropMode.SOFT)
    if not plan.supported:
        return SchemaRefused(plan)
    branches = live_branches(connection, graph.graph)
    busy = next((branch for branch in branches if branch.load_id is not None), None)
    if busy is not None and busy.load_id is not None:
        return BranchBusy(busy.name, busy.load_id)
    layout = next_layout(stored.layout, schema, plan)
    proposed = StoredSchema(stored.version + 1, 0, "", schema, layout)
    for branch in branches:
        chain = chain_at(connection, branch.branch, branch.head_seq)
        violations = tuple(
            islice(_violations(connection, stored.layout, proposed, plan, chain), limits.GRAPH_VIOLATIONS_MAX)
        )
        if violations:
            return SchemaRefused(plan, violations)
    return SchemaChange(plan, graph.schema_version, tuple((each.branch, each.head_seq) for each in branches))


def _violations(
    connection: sqlite3.Connection, known: Layout, proposed: StoredSchema, plan: SchemaPlan, chain: Chain
) -> Iterator[Violation]:
    names = {
        step.type_name for step in plan.steps if isinstance(step, AddConstraint | AddProperty) and step.code is not None
    }
    # Columns that do not exist yet are null everywhere.
    existing = {table.name: set(table.columns.values()) for table in known.tables.values()}
    for name in sorted(names):
        entity = proposed.schema.entity_type(name)
        table = proposed.layout.tables[name]
        if entity is not None and table.name in existing:
            yield from _value_violations(connection, proposed, entity, existing[table.name], chain)
    if any(
        isinstance(step, ChangeCardinality) or (isinstance(step, AddConstraint) and isinstance(step.constraint, Unique))
        for step in plan.steps
    ):
        yield from _relation_violations(connection, known, proposed, names, chain)


def _value_violations(
    connection: sqlite3.Connection, proposed: StoredSchema, entity: EntityType, existing: set[str], chain: Chain
) -> Iterator[Violation]:
    table = proposed.layout.tables[entity.name]
    columns = {name: column for name, column in table.columns.items() if column in existing}
    shown = ", ".join(["n.id", *(f"n.{column}" for column in columns.values())])
    condition = visible(SQLITE, "n", table, len(chain))
    statement = f"SELECT {shown} FROM {table.name} AS n WHERE {condition}"
    for identifier, *cells in connection.execute(statement, chain_parameters(chain)):
        types = (entity.by_name[name].type for name in columns)
        values = {name: decode_value(cell, type_) for name, cell, type_ in zip(columns, cells, types, strict=True)}
        yield from check_values(entity, values, identifier)


def _relation_violations(
    connection: sqlite3.Connection, known: Layout, proposed: StoredSchema, names: set[str], chain: Chain
) -> Iterator[Violation]:
    """Uniqueness and cardinality of types that exist, with the constraints of the new schema."""
    tables = {table.name: set(table.columns.values()) for table in known.tables.values()}

    def is_stored(type_name: str) -> bool:
        table = proposed.layout.tables[type_name]
        return table.name in tables and set(table.columns.values()) <= tables[table.name]

    nodes = tuple(each for each in proposed.schema.nodes if each.name in names and is_stored(each.name))
    edges = tuple(
        each
        for each in proposed.schema.edges
        if each.name in names and is_stored(each.name) and is_stored(each.source) and is_stored(each.target)
    )
    checked = StoredSchema(proposed.version, 0, "", Schema(nodes=nodes, edges=edges), proposed.layout)
    yield from check_everything(connection, checked, chain)


def apply_change(
    connection: sqlite3.Connection,
    catalogue: Catalogue,
    ref: GraphRef,
    change: SchemaChange,
    given: tuple[Schema, str, Stamp],
) -> SchemaApplied | HeadMoved | GraphNotFound | None:
    """Apply a plan; None if a branch moved since it was made."""
    schema, source, stamp = given
    graph = find_graph(connection, ref)
    if graph is None:
        return GraphNotFound()
    main = branch_named(connection, graph.graph, MAIN)
    assert main is not None
    actual = commit_id_at(connection, graph.graph, main.head_seq)
    if stamp.if_graph_commit is not None and stamp.if_graph_commit != actual:
        return HeadMoved(stamp.if_graph_commit, actual)
    branches = live_branches(connection, graph.graph)
    heads = tuple((each.branch, each.head_seq) for each in branches)
    if heads != change.heads or change.version != graph.schema_version or any(each.load_id for each in branches):
        return None
    stored = catalogue.schema(connection, graph.graph, graph.schema_version, is_writer=True)
    if not change.plan.steps:
        return SchemaApplied(change.plan, None, graph.schema_version)
    layout = next_layout(stored.layout, schema, change.plan)
    create_tables(connection, layout, schema, known=stored.layout)
    seq = take_seq(connection, graph.graph)
    version = graph.schema_version + 1
    insert_schema(connection, graph.graph, StoredSchema(version, seq, source, schema, layout))
    connection.execute("UPDATE graphs SET schema_version = ? WHERE graph = ?", (version, graph.graph))
    if any(isinstance(step, DropType | DropProperty) and step.mode is DropMode.HARD for step in change.plan.steps):
        _drop(connection, graph, stored, change.plan, version)
    commit = add_commit(connection, main, "schema", stamp, seq=seq)
    return SchemaApplied(change.plan, commit, version)


def _drop(connection: sqlite3.Connection, graph: Graph, stored: StoredSchema, plan: SchemaPlan, version: int) -> None:
    """End snapshots under older schemas, and note what is to be removed."""
    connection.execute("UPDATE graphs SET oldest_schema = ? WHERE graph = ?", (version, graph.graph))
    renamed = {step.type_name: step.old_name for step in plan.steps if isinstance(step, RenameType)}
    garbage = []
    for step in plan.steps:
        if isinstance(step, DropType):
            garbage.append((stored.layout.tables[step.type_name].name, ""))
        elif isinstance(step, DropProperty):
            table = stored.layout.tables[renamed.get(step.type_name, step.type_name)]
            garbage.append((table.name, table.columns[step.property_name]))
    connection.executemany("INSERT OR IGNORE INTO graph_garbage (table_name, column_name) VALUES (?, ?)", garbage)

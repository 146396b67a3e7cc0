"""Mutations: the steps of a checked mutation as one commit.

Every step sees what the ones before it did, because the view of the commit has that commit as its head. Constraints
between entities are checked once, at the end.

Above it: `store`. Below it: `versions`, `constraints`, `statements`, `catalogue`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.graph.schema.model import EdgeType, EntityType, NodeType
from penstock.graph.sql.layout import Table
from penstock.graph.sql.statement import bind, encode_value
from penstock.graph.typing.model import (
    Assignment,
    CheckedMutation,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    MutationStep,
    UpdateNodes,
)
from penstock.graph.typing.patterns import ConstantList, ConstantValue, NowValue, ParameterValue
from penstock.graph.values import GraphValue
from penstock.graph.versions.checking import check_identifier, check_values, kind_of
from penstock.graph.versions.entities import Violation, ViolationKind
from penstock.graph.versions.identity import key_of
from penstock.runtime.ports.graphs import (
    BranchBusy,
    ConstraintsViolated,
    GraphRef,
    HeadMoved,
    Mutated,
    Parameters,
    QueryNotSupported,
    ReadStopped,
    Refused,
    Stamp,
)
from penstock.runtime.stores.sqlite.graphs.catalogue import (
    Branch,
    Catalogue,
    Chain,
    Graph,
    Head,
    StoredSchema,
    add_commit,
    chain_at,
    find_head,
    take_seq,
)
from penstock.runtime.stores.sqlite.graphs.constraints import check_commit
from penstock.runtime.stores.sqlite.graphs.reading import is_interrupted, time_limit
from penstock.runtime.stores.sqlite.graphs.statements import Statements
from penstock.runtime.stores.sqlite.graphs.versions import StoredRow, VersionWriter, chain_parameters, row_columns

__all__ = ["Writable", "find_writable", "is_long_mutation", "mutate", "undone_unless"]


@dataclass(frozen=True, slots=True)
class Writable:
    """A branch that may be written now."""

    graph: Graph
    branch: Branch


def find_writable(
    connection: sqlite3.Connection, ref: GraphRef, branch_name: str, expected: str | None
) -> Writable | Refused:
    """The branch to write to, or why it cannot be written."""
    head = find_head(connection, ref, branch_name)
    if not isinstance(head, Head):
        return head
    if head.branch.load_id is not None:
        return BranchBusy(branch_name, head.branch.load_id)
    if expected not in (None, head.commit_id):
        return HeadMoved(expected or "", head.commit_id)
    return Writable(head.graph, head.branch)


@contextmanager
def undone_unless(connection: sqlite3.Connection, kept: list[bool]) -> Iterator[None]:
    """Undo what is written inside, unless `kept` gets an item. Other jobs of the transaction are not touched."""
    connection.execute("SAVEPOINT graph_write")
    try:
        yield
    finally:
        if connection.in_transaction:  # otherwise SQLite itself has rolled back everything
            if not kept:
                connection.execute("ROLLBACK TO graph_write")
            connection.execute("RELEASE graph_write")


class _StoppedError(Exception):
    def __init__(self, outcome: ConstraintsViolated | ReadStopped | QueryNotSupported) -> None:
        super().__init__(outcome)
        self.outcome = outcome


def is_long_mutation(mutation: CheckedMutation) -> bool:
    """Whether a mutation may take long enough to be noticed by the event loop."""
    return not mutation.only_inserts


def mutate(
    connection: sqlite3.Connection,
    catalogue: Catalogue,
    statements: Statements,
    target: tuple[GraphRef, str, Stamp],
    query: tuple[CheckedMutation, Parameters],
) -> Mutated | ConstraintsViolated | ReadStopped | QueryNotSupported | Refused:
    """Run a mutation on a branch."""
    ref, branch_name, stamp = target
    found = find_writable(connection, ref, branch_name, stamp.if_graph_commit)
    if not isinstance(found, Writable):
        return found
    graph, branch = found.graph, found.branch
    stored = catalogue.schema(connection, graph.graph, graph.schema_version, is_writer=True)
    kept: list[bool] = []
    with undone_unless(connection, kept):
        seq = take_seq(connection, graph.graph)
        chain: Chain = ((branch.branch, seq), *chain_at(connection, branch.branch, branch.head_seq)[1:])
        steps = _Steps(connection, stored, statements, chain, query[1], stamp)
        try:
            for step in query[0].steps:
                steps.run(step)
        except _StoppedError as stopped:
            return stopped.outcome
        if not steps.nodes and not steps.edges:
            return Mutated(None, 0, 0)
        violations = check_commit(connection, stored, chain, steps.touched, only_inserts=query[0].only_inserts)
        if violations:
            return ConstraintsViolated(violations)
        commit = add_commit(connection, branch, "mutation", stamp, seq=seq)
        kept.append(True)
        return Mutated(commit, steps.nodes, steps.edges)


@dataclass(slots=True)
class _Steps:
    connection: sqlite3.Connection
    stored: StoredSchema
    statements: Statements
    chain: Chain
    parameters: Parameters
    stamp: Stamp
    nodes: int = 0
    edges: int = 0
    touched: set[str] = field(default_factory=set)

    def run(self, step: MutationStep) -> None:
        match step:
            case InsertNode(values=values):
                self._insert(self._node_type(step), (), self._values(values))
            case InsertEdge(source=source, target=target, values=values):
                ends = (self._end(source), self._end(target))
                self._insert(self._edge_type(step), ends, self._values(values))
            case UpdateNodes(values=values):
                self._update(self._node_type(step), self._targets(step), self._values(values))
            case DeleteNodes():
                self._delete_nodes(self._node_type(step), self._targets(step))
            case DeleteEdges():
                self.edges += self._remove(self._edge_type(step), self._targets(step))

    def _node_type(self, step: InsertNode | UpdateNodes | DeleteNodes) -> NodeType:
        """The type as the schema has it now, which may be another one than that the query was checked with."""
        found = self.stored.schema.node_types.get(step.type.name)
        if found is None:
            raise _outdated(step.type.name)
        return found

    def _edge_type(self, step: InsertEdge | DeleteEdges) -> EdgeType:
        found = self.stored.schema.edge_types.get(step.type.name)
        if found is None:
            raise _outdated(step.type.name)
        return found

    def _writer(self) -> VersionWriter:
        return VersionWriter(self.connection, self.chain)

    def _value(self, value: ConstantValue | ConstantList | ParameterValue | NowValue) -> GraphValue | None:
        match value:
            case ParameterValue(name):
                return self.parameters.get(name)
            case NowValue():
                return self.stamp.at
            case ConstantValue(constant) | ConstantList(constant):
                return constant

    def _values(self, assignments: tuple[Assignment, ...]) -> dict[str, GraphValue | None]:
        return {each.property.name: self._value(each.value) for each in assignments}

    def _end(self, value: ConstantValue | ParameterValue) -> str:
        found = self._value(value)
        return found if isinstance(found, str) else ""

    def _insert(self, type_: EntityType, ends: tuple[str, ...], values: Mapping[str, GraphValue | None]) -> None:
        _check_names(type_, values)
        key = key_of(type_, values) if isinstance(type_, NodeType) else None
        _refuse(check_values(type_, values, key))
        identifier = key if key is not None else self.stamp.new_id()
        _refuse(check_identifier(type_, identifier))
        table = self.stored.layout.tables[type_.name]
        writer = self._writer()
        own = writer.own(table, [identifier])
        if writer.visible_among(table, own, [identifier]):
            message = f"the {type_.name} {identifier} already exists"
            _refuse([_violation(ViolationKind.KEY_CONFLICT, type_, identifier, message)])
        writer.put(table, [stored_row(table, type_, (identifier, *ends), values)], own)
        self._count(type_, 1)

    def _count(self, type_: EntityType, number: int) -> None:
        if number:
            self.touched.add(type_.name)
        if isinstance(type_, NodeType):
            self.nodes += number
        else:
            self.edges += number

    def _targets(self, step: UpdateNodes | DeleteNodes | DeleteEdges) -> list[str]:
        """The identifiers of what a step is about."""
        statement = self.statements.target(step, self.stored.layout, self.stored.version, len(self.chain))
        if isinstance(statement, QueryNotSupported):
            raise _StoppedError(statement)
        given = {**bind(statement, self.parameters, self.stamp.at), **chain_parameters(self.chain)}
        try:
            with time_limit(self.connection, limits.GRAPH_MUTATION_SECONDS):
                cursor = self.connection.execute(statement.text, given)
                found = [row[0] for row in cursor.fetchmany(limits.GRAPH_ROWS_MAX + 1)]
                cursor.close()
        except sqlite3.OperationalError as error:
            if not is_interrupted(error):
                raise
            raise _StoppedError(ReadStopped("GRAPH_MUTATION_SECONDS", limits.GRAPH_MUTATION_SECONDS)) from None
        if len(found) > limits.GRAPH_ROWS_MAX:
            raise _StoppedError(ReadStopped("GRAPH_ROWS_MAX", limits.GRAPH_ROWS_MAX))
        return found

    def _update(self, type_: NodeType, ids: list[str], values: Mapping[str, GraphValue | None]) -> None:
        _check_names(type_, values)
        if not ids:
            return
        _refuse(check_values(type_, values, ids[0] if len(ids) == 1 else None, partial=True))
        table = self.stored.layout.tables[type_.name]
        places = {column: place for place, column in enumerate(row_columns(table))}
        changed = {
            places[table.columns[name]]: encode_value(value, type_.by_name[name].type) for name, value in values.items()
        }
        writer = self._writer()
        rows = []
        for row in writer.visible_rows(table, ids):
            cells = list(row)
            for place, value in changed.items():
                cells[place] = value
            rows.append(tuple(cells))
        writer.put(table, rows)
        self._count(type_, len(rows))

    def _remove(self, type_: EntityType, ids: list[str]) -> int:
        removed = self._writer().remove(self.stored.layout.tables[type_.name], ids)
        if removed:
            self.touched.add(type_.name)
        return removed

    def _delete_nodes(self, type_: NodeType, ids: list[str]) -> None:
        """Delete nodes and all edges at them."""
        writer = self._writer()
        for edge in self.stored.schema.edges:
            table = self.stored.layout.tables[edge.name]
            found: list[str] = []
            if edge.source == type_.name:
                found += writer.edges_at(table, "src", ids)
            if edge.target == type_.name:
                found += writer.edges_at(table, "dst", ids)
            self.edges += self._remove(edge, list(dict.fromkeys(found)))
        self.nodes += self._remove(type_, ids)


def stored_row(
    table: Table, type_: EntityType, identity: tuple[str, ...], values: Mapping[str, GraphValue | None]
) -> StoredRow:
    """The row of an entity: its identifier and ends, then its properties."""
    by_name = type_.by_name
    cells = [encode_value(values.get(name), by_name[name].type) for name in table.columns]
    return (*identity, *cells)


def _outdated(name: str) -> _StoppedError:
    message = f"the query names {name}, which the schema no longer has"
    return _StoppedError(QueryNotSupported("GRAPH_QUERY_OUTDATED", message))


def _check_names(type_: EntityType, values: Mapping[str, GraphValue | None]) -> None:
    for name in values:
        if name not in type_.by_name:
            raise _outdated(f"{type_.name}.{name}")


def _refuse(violations: list[Violation]) -> None:
    if violations:
        raise _StoppedError(ConstraintsViolated(tuple(violations)))


def _violation(kind: ViolationKind, type_: NodeType | EdgeType, entity_id: str, message: str) -> Violation:
    return Violation(kind=kind, entity_kind=kind_of(type_), type_name=type_.name, entity_id=entity_id, message=message)

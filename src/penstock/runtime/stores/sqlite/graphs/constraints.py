"""Constraints between entities, checked for everything that one commit wrote: uniqueness, ends of edges, cardinality.

The commit is the head of the view (its number is `s0`, its branch `b0`), published or not. What it wrote is found by
the indexes on the first and the last commit of versions, so a check costs as much as the commit changed.

Above it: `mutating`, `staging`, `merging`, `schemas`. Below it: sqlite3, `penstock.graph.sql`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from enum import Enum, auto
from itertools import islice

from penstock.base import limits
from penstock.graph.schema.model import EdgeType, EntityType, Key, Unique
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible, visible_edges
from penstock.graph.sql.layout import OPEN, Table, key_column
from penstock.graph.versions.checking import kind_of
from penstock.graph.versions.entities import Violation, ViolationKind
from penstock.runtime.stores.sqlite.graphs.catalogue import Chain, StoredSchema
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters

__all__ = ["check_commit", "check_everything"]

# Versions that the commit began, and entities that it deleted.
_BEGUN = "{alias}.br = :b0 AND {alias}.c_from = :s0 AND {alias}.c_to > :s0 AND {alias}.dead = 0"
# The second bound looks useless; it lets SQLite use the index of versions that have ended.
_ENDED = (
    f"SELECT {{columns}} FROM {{table}} WHERE br = :b0 AND c_to = :s0 AND c_to < {OPEN} AND dead = 0"
    " UNION SELECT {columns} FROM {table} WHERE br = :b0 AND c_from = :s0 AND dead = 1"
)


def check_commit(
    connection: sqlite3.Connection,
    stored: StoredSchema,
    chain: Chain,
    touched: Collection[str] | None = None,
    checked: Collection[tuple[str, str]] = frozenset(),
    *,
    only_inserts: bool = False,
) -> tuple[Violation, ...]:
    """The constraints that a commit breaks, the first `GRAPH_VIOLATIONS_MAX` of them.

    `touched` names the types that it wrote, if that is known; the others need no look. `checked` has edge types and
    ends (`src`, `dst`) of which it is known that every edge that the commit wrote has a node there. With
    `only_inserts`, it took no node away from edges that were there before.
    """
    scope = _Scope.INSERTS if only_inserts else _Scope.COMMIT
    checks = _Checks(connection, stored, chain, scope, touched, checked)
    return tuple(islice(checks.run(), limits.GRAPH_VIOLATIONS_MAX))


def check_everything(connection: sqlite3.Connection, stored: StoredSchema, chain: Chain) -> tuple[Violation, ...]:
    """The constraints that anything in a view breaks: for a schema that is stricter than the one before."""
    checks = _Checks(connection, stored, chain, _Scope.EVERYTHING)
    return tuple(islice(checks.run(), limits.GRAPH_VIOLATIONS_MAX))


class _Scope(Enum):
    """What is checked: what a commit wrote, the same if it only inserted, or everything that a view shows."""

    COMMIT = auto()
    INSERTS = auto()
    EVERYTHING = auto()


class _Checks:
    def __init__(
        self,
        connection: sqlite3.Connection,
        stored: StoredSchema,
        chain: Chain,
        scope: _Scope,
        touched: Collection[str] | None = None,
        checked: Collection[tuple[str, str]] = frozenset(),
    ) -> None:
        self._connection = connection
        self._schema = stored.schema
        self._layout = stored.layout
        self._touched = touched
        self._checked = checked
        self._parameters = chain_parameters(chain)
        self._depth = len(chain)
        self._is_complete = scope is _Scope.EVERYTHING
        self._only_inserts = scope is _Scope.INSERTS

    def run(self) -> Iterator[Violation]:
        for node in self._schema.nodes:
            if self._is_touched(node.name):
                yield from self._unique(node)
        for edge in self._schema.edges:
            if self._is_touched(edge.name):
                yield from self._unique(edge)
            if self._is_touched(edge.name, edge.source, edge.target):
                if not self._only_inserts or self._is_touched(edge.name):
                    yield from self._ends(edge)
                yield from self._cardinality(edge)

    def _is_touched(self, *names: str) -> bool:
        return self._touched is None or any(name in self._touched for name in names)

    def _visible(self, alias: str, table: Table) -> str:
        return visible(SQLITE, alias, table, self._depth)

    def _written(self, alias: str, table: Table) -> str:
        return self._visible(alias, table) if self._is_complete else _BEGUN.format(alias=alias)

    def _rows(self, statement: str, **parameters: object) -> list[tuple[object, ...]]:
        given = {**self._parameters, "most": limits.GRAPH_VIOLATIONS_MAX, **parameters}
        return self._connection.execute(f"{statement} LIMIT :most", given).fetchall()

    def _unique(self, entity: EntityType) -> Iterator[Violation]:
        table = self._layout.tables[entity.name]
        for constraint in entity.constraints:
            if not isinstance(constraint, Unique | Key):
                continue
            if isinstance(constraint, Key):
                continue  # the key is the identifier, and those are distinct
            columns = [key_column(table, name) for name in constraint.properties]
            if self._is_complete:
                yield from self._groups(entity, constraint.properties, columns)
                continue
            same = " AND ".join(f"other.{column} = one.{column}" for column in columns)
            others = f"{table.name} AS other"
            if columns[0] in ("src", "dst"):
                others = f"{table.hops(columns[0])} AS hop CROSS JOIN {others}"
                same = f"hop.{columns[0]} = one.{columns[0]} AND other.rid = hop.rid AND {same}"
            statement = (
                f"SELECT one.id, other.id FROM {table.name} AS one CROSS JOIN {others}"
                f" WHERE {self._written('one', table)} AND {same} AND other.id <> one.id"
                f" AND {self._visible('other', table)}"
            )
            for one, other in self._rows(statement):
                names = ", ".join(constraint.properties)
                message = f"{entity.name} {one} and {other} have the same {names}, which must be unique"
                yield _violation(ViolationKind.UNIQUE, entity, one, message)

    def _groups(self, entity: EntityType, names: tuple[str, ...], columns: list[str]) -> Iterator[Violation]:
        """Entities that agree, looked for among all of them: there may be no index yet."""
        table = self._layout.tables[entity.name]
        present = " AND ".join(f"n.{column} IS NOT NULL" for column in columns)
        statement = (
            f"SELECT min(n.id), max(n.id) FROM {table.name} AS n WHERE {self._visible('n', table)} AND {present}"
            f" GROUP BY {', '.join(f'n.{column}' for column in columns)} HAVING count(*) > 1"
        )
        for one, other in self._rows(statement):
            message = f"{entity.name} {one} and {other} have the same {', '.join(names)}, which must be unique"
            yield _violation(ViolationKind.UNIQUE, entity, one, message)

    def _ends(self, edge: EdgeType) -> Iterator[Violation]:
        """Edges that were written without an end, and edges whose end was deleted."""
        table = self._layout.tables[edge.name]
        for end, node_name in (("src", edge.source), ("dst", edge.target)):
            nodes = self._layout.tables[node_name]
            node = f"SELECT 1 FROM {nodes.name} AS n WHERE n.id = e.{end} AND {self._visible('n', nodes)}"
            statement = (
                f"SELECT e.id, e.{end} FROM {table.name} AS e WHERE {self._written('e', table)} AND NOT EXISTS ({node})"
            )
            found = [] if (edge.name, end) in self._checked else self._rows(statement)
            if not self._is_complete and not self._only_inserts:
                ended = _ENDED.format(columns="id", table=nodes.name)
                gone = f"SELECT 1 FROM {nodes.name} AS n WHERE n.id = g.id AND {self._visible('n', nodes)}"
                edges = visible_edges(SQLITE, "e", table, end, self._depth, whole=True)
                joined = " CROSS JOIN ".join((f"({ended}) AS g", *edges.sources))
                found += self._rows(
                    f"SELECT {edges.row}.id, e.{end} FROM {joined}"
                    f" WHERE NOT EXISTS ({gone}) AND e.{end} = g.id AND {edges.condition}"
                    f" AND NOT ({_BEGUN.format(alias='e')})"
                )
            for edge_id, missing in found:
                word = "from" if end == "src" else "to"
                message = f"the edge {edge.name} {edge_id} leads {word} {node_name} {missing}, which does not exist"
                yield _violation(ViolationKind.MISSING_END, edge, edge_id, message)

    def _cardinality(self, edge: EdgeType) -> Iterator[Violation]:
        card = edge.cardinality
        if card.minimum == 0 and card.maximum is None:
            return
        table, nodes = self._layout.tables[edge.name], self._layout.tables[edge.source]
        if self._is_complete:
            sources = f"SELECT n.id AS id FROM {nodes.name} AS n WHERE {self._visible('n', nodes)}"
        else:
            sources = (
                f"SELECT src AS id FROM {table.name} AS e WHERE {_BEGUN.format(alias='e')}"
                f" UNION SELECT src FROM ({_ENDED.format(columns='src', table=table.name)})"
                f" UNION SELECT id FROM {nodes.name} AS n WHERE {_BEGUN.format(alias='n')}"
            )
        own = f"SELECT 1 FROM {nodes.name} AS n WHERE n.id = s.id AND {self._visible('n', nodes)}"
        edges = visible_edges(SQLITE, "e", table, "src", self._depth, whole=False)
        joined = " CROSS JOIN ".join(edges.sources)
        count = f"(SELECT count(*) FROM {joined} WHERE e.src = s.id AND {edges.condition})"
        bounds = "number < :least" if card.maximum is None else "(number < :least OR number > :greatest)"
        statement = (
            f"SELECT id, number FROM (SELECT s.id AS id, {count} AS number FROM ({sources}) AS s"
            f" WHERE EXISTS ({own})) WHERE {bounds}"
        )
        for source, number in self._rows(statement, least=card.minimum, greatest=card.maximum):
            most = "any number" if card.maximum is None else card.maximum
            message = f"{edge.source} {source} has {number} edges {edge.name}, and must have {card.minimum} to {most}"
            yield _violation(ViolationKind.CARDINALITY, edge, source, message)


def _violation(kind: ViolationKind, entity: EntityType, entity_id: object, message: str) -> Violation:
    return Violation(
        kind=kind, entity_kind=kind_of(entity), type_name=entity.name, entity_id=str(entity_id), message=message
    )

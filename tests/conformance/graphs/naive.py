"""A graph in dictionaries, and the meaning of checked queries written down as simply as possible.

It tries every combination of nodes and edges. It shares nothing with the SQL compiler but the checked form of queries.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from penstock.graph.records import EdgeRecord, GraphRecord
from penstock.graph.typing.model import CheckedRead
from penstock.graph.typing.patterns import (
    AggregateValue,
    All,
    BlockExists,
    BlockValue,
    Compare,
    ConstantList,
    ConstantValue,
    ContainsItem,
    ContainsText,
    Direction,
    FieldValue,
    Hop,
    HopEdge,
    InList,
    IsNullTest,
    MetaField,
    MetaValue,
    NodeObject,
    Not,
    NowValue,
    ParameterValue,
    Pattern,
    StartsWith,
    TruthTest,
)
from penstock.graph.typing.patterns import Any as AnyOf
from penstock.graph.versions.identity import key_of

__all__ = ["Edge", "NaiveGraph", "Node", "answer"]


@dataclass(frozen=True)
class Node:
    """A node: its type, its identifier, its properties."""

    type: str
    id: str
    values: dict[str, Any] = field(hash=False, compare=False)


@dataclass(frozen=True)
class Edge:
    """An edge."""

    type: str
    id: str
    source: str
    target: str
    values: dict[str, Any] = field(hash=False, compare=False)


@dataclass
class NaiveGraph:
    """Nodes and edges by type."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    @staticmethod
    def of(records: list[GraphRecord]) -> NaiveGraph:
        graph = NaiveGraph()
        for record in records:
            values = {name: value for name, value in record.properties.items() if value is not None}
            if isinstance(record, EdgeRecord):
                graph.edges.append(Edge(record.type.name, record.id or "", record.source, record.target, values))
            else:
                identifier = record.id or key_of(record.type, record.properties) or ""
                graph.nodes.append(Node(record.type.name, identifier, values))
        return graph


Bindings = dict[str, Any]


@dataclass
class _Run:
    graph: NaiveGraph
    parameters: dict[str, Any]
    now: int

    # --- matches ---------------------------------------------------------------------------------

    def matches(self, pattern: Pattern, outer: Bindings) -> Iterator[Bindings]:
        choices = [[each for each in self.graph.nodes if each.type == node.type.name] for node in pattern.nodes]
        edge_choices = [
            [each for each in self.graph.edges if each.type in {type_.name for type_ in edge.types}]
            for edge in pattern.edges
        ]
        names = [each.name for each in pattern.nodes]
        edge_names = [each.name for each in pattern.edges]
        for chosen in product(*choices):
            bound = {**outer, **dict(zip(names, chosen, strict=True))}
            plain = [hop for hop in pattern.hops if hop.edge is None]
            if not all(self.connects(hop, bound) for hop in plain):
                continue
            for edges in product(*edge_choices):
                whole = {**bound, **dict(zip(edge_names, edges, strict=True))}
                if not all(self.is_at(hop, whole) for hop in pattern.hops if hop.edge is not None):
                    continue
                if all(self.truth(each, whole) is True for each in pattern.conditions):
                    yield whole

    def steps(self, edges: tuple[HopEdge, ...], start: str) -> set[str]:
        found = set()
        for edge in self.graph.edges:
            for way in edges:
                if edge.type != way.type.name:
                    continue
                if way.direction in (Direction.OUT, Direction.BOTH) and edge.source == start:
                    found.add(edge.target)
                if way.direction in (Direction.IN, Direction.BOTH) and edge.target == start:
                    found.add(edge.source)
        return found

    def connects(self, hop: Hop, bound: Bindings) -> bool:
        start, end = bound[hop.source].id, bound[hop.target].id
        if hop.maximum == 1:
            return end in self.steps(hop.edges, start)
        if start == end:
            return hop.minimum == 1 and start in self.steps(hop.edges, start)
        seen, frontier = {start}, {start}
        for distance in range(1, hop.maximum + 1):
            frontier = {far for near in frontier for far in self.steps(hop.edges, near)} - seen
            seen |= frontier
            if end in frontier:
                return distance >= hop.minimum
        return False

    def is_at(self, hop: Hop, bound: Bindings) -> bool:
        edge, start, end = bound[hop.edge or ""], bound[hop.source].id, bound[hop.target].id
        for way in hop.edges:
            if way.type.name != edge.type:
                continue
            if way.direction in (Direction.OUT, Direction.BOTH) and (edge.source, edge.target) == (start, end):
                return True
            if way.direction in (Direction.IN, Direction.BOTH) and (edge.target, edge.source) == (start, end):
                return True
        return False

    # --- values ----------------------------------------------------------------------------------

    def value(self, expression: Any, bound: Bindings) -> Any:
        match expression:
            case ConstantValue() | ConstantList():
                return expression.value
            case ParameterValue():
                return self.parameters.get(expression.name)
            case NowValue():
                return self.now
            case FieldValue():
                return bound[expression.variable].values.get(expression.name)
            case MetaValue():
                return _meta(bound[expression.variable], expression.field)
            case NodeObject():
                node = bound[expression.variable]
                shown = {each.name for each in expression.type.properties}
                return {"@id": node.id, **{name: value for name, value in node.values.items() if name in shown}}
            case BlockValue():
                found = list(self.matches(expression.pattern, bound))
                if expression.function == "count":
                    return len(found)
                values = [self.value(expression.argument, each) for each in found]
                return float(sum(float(each) for each in values if each is not None))
            case _:
                raise AssertionError(expression)

    def truth(self, condition: Any, bound: Bindings) -> bool | None:
        match condition:
            case All():
                return _all([self.truth(each, bound) for each in condition.operands])
            case AnyOf():
                return _negated(_all([_negated(self.truth(each, bound)) for each in condition.operands]))
            case Not():
                return _negated(self.truth(condition.operand, bound))
            case BlockExists():
                return (next(self.matches(condition.pattern, bound), None) is not None) != condition.negated
            case IsNullTest():
                return (self.value(condition.operand, bound) is None) != condition.negated
            case TruthTest():
                found = self.value(condition.operand, bound)
                return None if found is None else bool(found)
            case _:
                return self.test(condition, bound)

    def test(self, condition: Any, bound: Bindings) -> bool | None:
        match condition:
            case Compare():
                left, right = self.value(condition.left, bound), self.value(condition.right, bound)
                return None if left is None or right is None else _compare(left, condition.comparator.value, right)
            case ContainsItem():
                items, item = self.value(condition.items, bound), self.value(condition.item, bound)
                return None if items is None or item is None else item in items
            case InList():
                item, items = self.value(condition.operand, bound), self.value(condition.items, bound)
                return None if items is None or item is None else (item in items) != condition.negated
            case ContainsText():
                text, part = self.value(condition.text, bound), self.value(condition.part, bound)
                return None if text is None or part is None else part in text
            case StartsWith():
                text, prefix = self.value(condition.text, bound), self.value(condition.prefix, bound)
                return None if text is None or prefix is None else text.startswith(prefix)
            case _:
                raise AssertionError(condition)


def _meta(entity: Any, wanted: MetaField) -> str:
    match wanted:
        case MetaField.ID:
            return str(entity.id)
        case MetaField.TYPE:
            return str(entity.type)
        case MetaField.SRC:
            return str(entity.source)
        case MetaField.DST:
            return str(entity.target)


def _all(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _compare(left: Any, operator: str, right: Any) -> bool:
    match operator:
        case "=":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


Key = list[tuple[Any, bool]]


def answer(graph: NaiveGraph, read: CheckedRead, parameters: dict[str, Any], now: int) -> list[tuple[Any, ...]]:
    """The rows of a read."""
    run = _Run(graph, parameters, now)
    found = list(run.matches(read.pattern, {}))
    rows = _grouped(run, read, found) if read.aggregated else _plain(run, read, found)

    def compared(one: tuple[Key, tuple[Any, ...]], other: tuple[Key, tuple[Any, ...]]) -> int:
        return _order(one[0], other[0])

    ordered = [row for _, row in sorted(rows, key=functools.cmp_to_key(compared))]
    return ordered if read.limit is None else ordered[: read.limit]


def _plain(run: _Run, read: CheckedRead, found: list[Bindings]) -> list[tuple[Key, tuple[Any, ...]]]:
    rows = []
    for match in found:
        key: Key = [(run.value(each.expression, match), each.descending) for each in read.order]
        key += [(match[name].id, False) for name in read.tie_break]
        rows.append((key, tuple(run.value(each.expression, match) for each in read.columns)))
    return rows


def _grouped(run: _Run, read: CheckedRead, found: list[Bindings]) -> list[tuple[Key, tuple[Any, ...]]]:
    groups: dict[Any, list[Bindings]] = {}
    for match in found:
        key = tuple(_hashable(run.value(read.columns[at].expression, match)) for at in read.group_by)
        groups.setdefault(key, []).append(match)
    if not read.group_by and not groups:
        groups[()] = []
    rows = []
    for members in groups.values():
        row = []
        for column in read.columns:
            if isinstance(column.expression, AggregateValue):
                row.append(_aggregate(run, column.expression, members))
            else:
                row.append(run.value(column.expression, members[0]))
        order: Key = []
        for each in read.order:
            assert each.column is not None
            order.append((row[each.column], each.descending))
        order += [(_hashable(row[at]), False) for at in read.group_by]
        rows.append((order, tuple(row)))
    return rows


def _hashable(value: Any) -> Any:
    return value["@id"] if isinstance(value, dict) else value


def _aggregate(run: _Run, value: AggregateValue, members: list[Bindings]) -> Any:
    if value.argument is None:
        return len(members)
    values = [found for each in members if (found := run.value(value.argument, each)) is not None]
    match value.function:
        case "count":
            return len(values)
        case "sum":
            return float(sum(values)) if values else None
        case "avg":
            return float(sum(values)) / len(values) if values else None
        case "min":
            return min(values, default=None)
        case _:
            return max(values, default=None)


def _order(one: Key, other: Key) -> int:
    for (left, descending), (right, _) in zip(one, other, strict=True):
        if left == right:
            continue
        smaller = left is None if left is None or right is None else left < right
        return (1 if smaller else -1) if descending else (-1 if smaller else 1)
    return 0

"""Reads as one SELECT each.

The innermost SELECT has one row for each match, with everything that the outer ones need. If the read has aggregates,
the next one groups them. A fusion of rankings numbers the rows by each ranking first. The outermost one orders.

Above it: the stores. Below it: `patterns`, `conditions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.graph.schema.model import Base, Scalar, ValueType
from penstock.graph.sql.conditions import compile_value
from penstock.graph.sql.dialects import Dialect
from penstock.graph.sql.emitting import Emitter
from penstock.graph.sql.layout import NO_TEXT_INDEXES, Layout, TextIndexes
from penstock.graph.sql.patterns import Joined, compile_block, compile_pattern
from penstock.graph.sql.statement import Cell, NodeCell, Statement, ValueCell
from penstock.graph.sql.walking import variables_with_properties
from penstock.graph.typing.model import CheckedRead, Column, Order
from penstock.graph.typing.patterns import (
    AggregateValue,
    EdgeVariable,
    NodeObject,
    NodeObjectType,
    RankFusion,
    RankValue,
    TypedExpression,
)

__all__ = ["ROW_LIMIT", "ROW_OFFSET", "compile_read"]

ROW_LIMIT, ROW_OFFSET = "row_limit", "row_offset"
_TEXT = Scalar(Base.STRING)


def compile_read(
    dialect: Dialect,
    layout: Layout,
    read: CheckedRead,
    *,
    depth: int,
    text_indexes: TextIndexes = NO_TEXT_INDEXES,
) -> Statement:
    """Compile a read for a view of so many branches. Raises `NotCompilableError`."""
    emitter = Emitter(dialect, layout, depth, variables_with_properties(read), text_indexes)
    joined = compile_pattern(emitter, read.pattern)
    builder = _Builder(emitter, joined, read)
    text = builder.aggregated() if read.aggregated else builder.plain()
    page = f" LIMIT {dialect.placeholder(ROW_LIMIT)} OFFSET {dialect.placeholder(ROW_OFFSET)}"
    return Statement(
        text=text + page,
        bound=tuple(emitter.bound),
        cells=tuple(_cell(each) for each in read.columns),
        columns=tuple(each.name for each in read.columns),
        paged=True,
        limit=read.limit,
        scans=emitter.scans,
        searched=frozenset(emitter.searched),
        corpora=tuple(emitter.corpora),
    )


def _cell(column: Column) -> Cell:
    if isinstance(column.type, NodeObjectType):
        return NodeCell(tuple((each.name, each.type) for each in column.type.properties))
    return ValueCell(column.type)


@dataclass(slots=True)
class _Columns:
    """The columns of a SELECT; equal expressions are one column."""

    prefix: str
    names: dict[str, str] = field(default_factory=dict)

    def add(self, sql: str) -> str:
        known = self.names.get(sql)
        if known is None:
            known = self.names[sql] = f"{self.prefix}{len(self.names)}"
        return known

    def __str__(self) -> str:
        return ", ".join(f"{sql} AS {name}" for sql, name in self.names.items()) or "1 AS nothing"


class _Builder:
    def __init__(self, emitter: Emitter, joined: Joined, read: CheckedRead) -> None:
        self._emitter = emitter
        self._dialect = emitter.dialect
        self._joined = joined
        self._read = read
        self._inner = _Columns("m")
        self._identity = [self._inner.add(each) for each in joined.identity]
        self._fusions: dict[RankFusion, str] = {}

    def _value(self, value: TypedExpression) -> str:
        """The name of an expression in the innermost SELECT."""
        if isinstance(value, RankFusion):
            return self._fusions.setdefault(value, f"f{len(self._fusions)}")
        return self._inner.add(compile_value(self._emitter, value, self._joined.scope, compile_block))

    def _node(self, value: NodeObject) -> list[str]:
        """The names of a node's identifier and properties."""
        source = self._joined.scope.node(value.variable)
        columns = [f"{source.alias}.{source.table.columns[each.name]}" for each in value.type.properties]
        return [self._inner.add(source.id), *map(self._inner.add, columns)]

    def _matches(self) -> str:
        keyword = "DISTINCT " if self._joined.repeats else ""
        return self._joined.select(f"{keyword}{self._inner}")

    # --- plain reads -----------------------------------------------------------------------------

    def plain(self) -> str:
        outputs: list[str] = []
        for column in self._read.columns:
            if isinstance(column.expression, NodeObject):
                outputs += self._node(column.expression)
            else:
                outputs.append(self._value(column.expression))
        order = [self._order(self._ordered(each), each, _type_of(each.expression)) for each in self._read.order]
        order += [self._ascending(each, _TEXT) for each in self._tie_break()]
        source = f"({self._matches_with_fusions()}) AS m"
        return f"SELECT {', '.join(outputs)} FROM {source}{_order_by(order)}"

    def _tie_break(self) -> list[str]:
        found = []
        types = {each.name: each for each in self._read.pattern.edges}
        for name in self._read.tie_break:
            variable = types.get(name)
            if isinstance(variable, EdgeVariable):
                edge = self._joined.scope.edge(name)
                found.append(self._inner.add(edge.id))
                if len(variable.types) != 1:
                    found.append(self._inner.add(edge.type))
            else:
                found.append(self._inner.add(self._joined.scope.node(name).id))
        return found

    def _matches_with_fusions(self) -> str:
        """The matches, and for each fusion the sum over its rankings. Rows without a rank get nothing from it."""
        if not self._fusions:
            return self._matches()
        columns = []
        for fusion, name in self._fusions.items():
            parts = []
            for rank in fusion.ranks:
                value = self._value(rank)
                order = [self._best_first(value, rank), *self._identity]
                place = f"row_number() OVER (ORDER BY {', '.join(order)})"
                parts.append(f"CASE WHEN {value} IS NULL THEN 0.0 ELSE 1.0 / ({int(fusion.k)} + {place}) END")
            columns.append(f"{' + '.join(parts)} AS {name}")
        return f"SELECT w.*, {', '.join(columns)} FROM ({self._matches()}) AS w"

    def _best_first(self, sql: str, rank: RankValue) -> str:
        return f"{sql} {'ASC' if rank.kind.value == 'nearest' else 'DESC'} NULLS LAST"

    # --- aggregated reads ------------------------------------------------------------------------

    def aggregated(self) -> str:
        groups: list[tuple[str, ValueType]] = []
        outputs: list[str] = []
        places: list[str] = []
        for number, column in enumerate(self._read.columns):
            expression = column.expression
            if isinstance(expression, AggregateValue):
                outputs.append(f"{self._aggregate(expression)} AS g{number}")
            elif isinstance(expression, NodeObject):
                names = self._node(expression)
                groups += [(name, _TEXT) for name in names[:1]]
                outputs += [f"{name} AS g{number}_{place}" for place, name in enumerate(names)]
                places += names[1:]
            else:
                name = self._value(expression)
                groups.append((name, _type_of(expression)))
                outputs.append(f"{name} AS g{number}")
        order = [self._order(self._ordered(each), each, _type_of(each.expression)) for each in self._read.order]
        order += [self._ascending(name, type_) for name, type_ in groups]
        grouped = [*(name for name, _ in groups), *places]
        group_by = f" GROUP BY {', '.join(dict.fromkeys(grouped))}" if grouped else ""
        return f"SELECT {', '.join(outputs)} FROM ({self._matches()}) AS m{group_by}{_order_by(order)}"

    def _ordered(self, order: Order) -> str:
        if isinstance(order.expression, AggregateValue):
            return self._aggregate(order.expression)
        if isinstance(order.expression, NodeObject):
            return self._node(order.expression)[0]
        return self._value(order.expression)

    def _aggregate(self, value: AggregateValue) -> str:
        if value.argument is None:
            return "count(*)"
        argument = self._value(value.argument)
        if value.function in ("sum", "avg"):
            return f"{value.function}({self._dialect.as_float(argument)})"
        if value.function == "count":
            return f"count({argument})"
        return f"{value.function}({self._dialect.text(argument, value.argument.type)})"

    # --- order -----------------------------------------------------------------------------------

    def _order(self, sql: str, order: Order, type_: ValueType) -> str:
        direction = "DESC" if order.descending else "ASC"
        if isinstance(order.expression, RankValue | RankFusion):
            return f"{sql} {direction} NULLS LAST"  # what has no rank comes after everything that has one
        nulls = "LAST" if order.descending else "FIRST"
        return f"{self._dialect.text(sql, type_)} {direction} NULLS {nulls}"

    def _ascending(self, sql: str, type_: ValueType) -> str:
        return f"{self._dialect.text(sql, type_)} ASC NULLS FIRST"


def _type_of(value: TypedExpression) -> ValueType:
    return _TEXT if isinstance(value, NodeObject) else value.type


def _order_by(order: list[str]) -> str:
    return f" ORDER BY {', '.join(order)}" if order else ""

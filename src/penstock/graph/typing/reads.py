"""Reads: columns, groups, order and limit.

Above it: `check`. Below it: `blocks`, `operands`, `ranks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.base import limits
from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import (
    Aggregate,
    Alias,
    Constant,
    Expression,
    Field,
    Now,
    Ordering,
    Projection,
    Rank,
    RankKind,
    Read,
    Rrf,
    TextMatch,
    Variable,
)
from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, Vector
from penstock.graph.schema.types import written_type
from penstock.graph.typing.blocks import read_block
from penstock.graph.typing.context import QueryContext, Scope
from penstock.graph.typing.literals import is_number, plain_constant
from penstock.graph.typing.model import CheckedRead, Column, Order
from penstock.graph.typing.operands import Literal, Operands
from penstock.graph.typing.patterns import (
    AggregateValue,
    EdgeVariable,
    EntityKind,
    FieldValue,
    MetaField,
    MetaValue,
    NodeObject,
    NodeObjectType,
    NodeVariable,
    ParameterValue,
    RankFusion,
    RankValue,
    TypedExpression,
)
from penstock.graph.typing.ranks import Ranks

__all__ = ["read_read"]

_BLOB = Scalar(Base.BLOB)


def read_read(context: QueryContext, read: Read) -> CheckedRead | None:
    """Check a read; None if it has errors, which are reported."""
    block = read_block(context, read.match)
    reader = _Reader(context, block.scope, Operands(context, block.scope), Ranks(context, block.scope))
    columns = [reader.column(each) for each in read.returns]
    complete = [each for each in columns if each is not None]
    reader.distinct(read.returns, columns)
    aggregated = any(isinstance(each.expression, AggregateValue) for each in complete)
    if aggregated:
        reader.groups(read.returns, columns)
    order = reader.order(read, columns, aggregated=aggregated)
    reader.limit(read)
    if not block.complete or len(complete) != len(columns) or order is None:
        return None
    names = (*(each.name for each in block.pattern.nodes), *(each.name for each in block.pattern.edges))
    return CheckedRead(
        pattern=block.pattern,
        columns=tuple(complete),
        aggregated=aggregated,
        group_by=tuple(
            index
            for index, each in enumerate(complete)
            if aggregated and not isinstance(each.expression, AggregateValue)
        ),
        order=order,
        limit=read.limit,
        tie_break=() if aggregated else names,
    )


@dataclass(slots=True)
class _Reader:
    context: QueryContext
    scope: Scope
    operands: Operands
    ranks: Ranks

    def _report(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        self.context.report(code, message, position, hint)

    # Columns

    def column(self, projection: Projection) -> Column | None:
        """Resolve a column."""
        expression = self.value(projection.expression)
        if expression is None:
            return None
        name = projection.alias or _name_of(projection.expression)
        if name is None:
            self._report("COLUMN_NAME", "the column needs a name", projection.position, "write `… as name`")
            return None
        return Column(name, expression, expression.type, expression.nullable)

    def value(self, expression: Expression) -> TypedExpression | None:
        """Resolve an expression of `return` or `order`."""
        match expression:
            case Aggregate():
                return self._aggregate(expression)
            case Rank():
                return self.ranks.rank(expression)
            case Rrf():
                return self.ranks.fusion(expression)
            case TextMatch():
                message = f"`{expression.kind}` is a condition"
                self._report("T35", message, expression.position, "write it as a clause of `match`")
                return None
            case Variable():
                return self._variable(expression)
            case _:
                return self._plain(expression)

    def _plain(self, expression: Expression) -> TypedExpression | None:
        operand = self.operands.operand(expression)
        if not isinstance(operand, Literal):
            return operand
        if not isinstance(operand.value, Constant):
            self._report("T41", "a list cannot be a column", expression.position, "return single values")
            return None
        constant = plain_constant(operand.value)
        if isinstance(constant, str):
            self._report("T3", constant, expression.position)
            return None
        return constant

    def _variable(self, variable: Variable) -> NodeObject | ParameterValue | None:
        found = self.scope.find(variable.name)
        if isinstance(found, NodeVariable):
            shown = tuple(
                each for each in found.type.properties if each.type != _BLOB and not isinstance(each.type, Vector)
            )
            return NodeObject(variable.name, NodeObjectType(found.type.name, shown))
        if isinstance(found, EdgeVariable):
            hint = f"return its properties, or `${variable.name}.@id`"
            self._report("T23", f"`${variable.name}` is an edge and no column", variable.position, hint)
            return None
        parameter = self.context.parameter(variable.name)
        if parameter is None:
            self.context.unbound(variable.name, self.scope, variable.position)
        elif parameter.type == _BLOB:
            self._report("T24", f"`${variable.name}` is a Blob and no column", variable.position, "leave it out")
            return None
        else:
            self.context.used(variable.name, (None,))
        return parameter

    def _aggregate(self, aggregate: Aggregate) -> AggregateValue | None:
        function, argument = aggregate.function, aggregate.argument
        if function == "count" and isinstance(argument, Variable):
            return self._count(aggregate, argument)
        if not isinstance(argument, Field):
            hint = f"write `{function}($x.name)`" if function != "count" else "write `count($x)`"
            self._report("T8", f"`{function}` needs a property", aggregate.position, hint)
            return None
        field = self.operands.field(argument)
        if field is None:
            return None
        wrong = _wrong_argument(function, field)
        if wrong is not None:
            self._report("T8", wrong, aggregate.position, "choose another property, or `count`")
            return None
        result = {"count": Scalar(Base.I64), "sum": Scalar(Base.F64), "avg": Scalar(Base.F64)}
        return AggregateValue(
            function=function,
            argument=field,
            variable=field.variable,
            type=result.get(function, field.type),
            nullable=function != "count",
        )

    def _count(self, aggregate: Aggregate, variable: Variable) -> AggregateValue | None:
        found = self.scope.find(variable.name)
        if isinstance(found, NodeVariable):
            return AggregateValue(
                function="count", argument=None, variable=variable.name, type=Scalar(Base.I64), nullable=False
            )
        if isinstance(found, EdgeVariable):
            hint = f"write `count(${variable.name}.@id)`"
            self._report(
                "T23", f"`${variable.name}` is an edge and cannot be counted as such", aggregate.position, hint
            )
        elif variable.name in self.context.parameters:
            self._report("T8", "a parameter cannot be counted", aggregate.position, "count a node: `count($x)`")
        else:
            self.context.unbound(variable.name, self.scope, variable.position)
        return None

    def distinct(self, projections: Sequence[Projection], columns: Sequence[Column | None]) -> None:
        """Check that columns have different names."""
        seen: set[str] = set()
        for projection, column in zip(projections, columns, strict=True):
            if column is None:
                continue
            if column.name in seen:
                message = f"there are two columns `{column.name}`"
                self._report("T25", message, projection.position, "name one of them: `… as name`")
            seen.add(column.name)

    def groups(self, projections: Sequence[Projection], columns: Sequence[Column | None]) -> None:
        """Check the group columns of an aggregated read."""
        for projection, column in zip(projections, columns, strict=True):
            if column is None or isinstance(column.expression, AggregateValue):
                continue
            grouped = isinstance(column.expression, FieldValue | MetaValue | NodeObject)
            if not grouped or isinstance(column.type, ListOf | Vector):
                hint = "beside aggregates, return nodes (`$x`) and properties with single values (`$x.name`)"
                self._report("T9", f"rows cannot be grouped by `{column.name}`", projection.position, hint)

    # Order

    def limit(self, read: Read) -> None:
        """Check the limit."""
        if read.limit is not None and not 1 <= read.limit <= limits.GRAPH_ROWS_DEFAULT_MAX:
            message = f"a limit is between 1 and {limits.GRAPH_ROWS_DEFAULT_MAX}"
            self._report("LIMIT", message, read.returns[0].position if read.returns else None, "change the limit")

    def order(self, read: Read, columns: Sequence[Column | None], *, aggregated: bool) -> tuple[Order, ...] | None:
        """Resolve the keys of the order."""
        found = [self._key(each, columns, aggregated=aggregated) for each in read.order]
        keys = tuple(each for each in found if each is not None)
        self._ranked(read, columns, keys)
        return keys if len(keys) == len(found) else None

    def _ranked(self, read: Read, columns: Sequence[Column | None], keys: Sequence[Order]) -> None:
        """Check that rankings have a limit, and that those in columns are those of the order."""
        for ordering, key in zip(read.order, keys, strict=False):
            if read.limit is None and isinstance(key.expression, RankFusion):
                self._report("T21", "an order by `rrf` needs a limit", ordering.position, "write `limit 10`")
            nearest = isinstance(key.expression, RankValue) and key.expression.kind is RankKind.NEAREST
            if read.limit is None and nearest:
                self._report("T17", "an order by `nearest` needs a limit", ordering.position, "write `limit 10`")
        ranked = [each.expression for each in keys]
        ranked.extend(rank for each in ranked if isinstance(each, RankFusion) for rank in each.ranks)
        for projection, column in zip(read.returns, columns, strict=True):
            if column is not None and isinstance(column.expression, RankFusion):
                self._report("T37", "`rrf` cannot be a column", projection.position, "return one of its rankings")
            elif column is not None and isinstance(column.expression, RankValue) and column.expression not in ranked:
                self._report("T33", "the rows are not ordered by this ranking", projection.position, "order by it")

    def _key(self, ordering: Ordering, columns: Sequence[Column | None], *, aggregated: bool) -> Order | None:
        expression = ordering.expression
        if isinstance(expression, Alias):
            return self._alias(expression, ordering, columns)
        if aggregated and isinstance(expression, Rank | Rrf):
            self._report("T32", "groups have no ranking", ordering.position, "order by a column")
            return None
        value = self.value(expression)
        if value is None:
            return None
        index = next((at for at, each in enumerate(columns) if each is not None and each.expression == value), None)
        if index is None and (aggregated or isinstance(value, AggregateValue)):
            hint = "return it, and order by the name of the column"
            self._report("T42", "the rows of a group are ordered by its columns only", ordering.position, hint)
            return None
        return self._ordered(value, ordering, index)

    def _alias(self, alias: Alias, ordering: Ordering, columns: Sequence[Column | None]) -> Order | None:
        names = [each.name for each in columns if each is not None]
        index = next((at for at, each in enumerate(columns) if each is not None and each.name == alias.name), None)
        column = None if index is None else columns[index]
        if column is None:
            if len(names) == len(columns):
                hint = self.context.suggestions.hint(alias.name, names)
                self._report("T42", f"there is no column `{alias.name}`", alias.position, hint)
            return None
        return self._ordered(column.expression, ordering, index)

    def _ordered(self, value: TypedExpression, ordering: Ordering, index: int | None) -> Order | None:
        if isinstance(value, RankFusion):
            return Order(value, True, index)
        if isinstance(value, RankValue):
            large_is_good = value.kind is RankKind.BM25
            if ordering.descending and not large_is_good:
                message = "`nearest` has the nearest first"
                self._report("RANK_DIRECTION", message, ordering.position, "remove `desc`")
                return None
            return Order(value, large_is_good, index)
        if isinstance(value, NodeObject):
            identifier = MetaValue(variable=value.variable, kind=EntityKind.NODE, field=MetaField.ID)
            return Order(identifier, ordering.descending, index)
        if isinstance(value.type, ListOf | Vector):
            message = f"{written_type(value.type)} has no order"
            self._report("ORDER_TYPE", message, ordering.position, "order by single values")
            return None
        return Order(value, ordering.descending, index)


def _name_of(expression: Expression) -> str | None:
    """Return the name of a column without an alias."""
    match expression:
        case Field():
            return f"{expression.variable}.{expression.name}"
        case Variable():
            return expression.name
        case Aggregate():
            return _name_of(expression.argument)
        case Rank():
            return str(expression.kind)
        case Rrf():
            return "rrf"
        case Now():
            return "now"
        case _:
            return None


def _wrong_argument(function: str, field: FieldValue | MetaValue) -> str | None:
    if function == "count":
        return None
    if function in ("sum", "avg"):
        return None if is_number(field.type) else f"`{function}` needs numbers, not {written_type(field.type)}"
    if isinstance(field.type, Scalar | Enum):
        return None
    return f"`{function}` needs single values, not {written_type(field.type)}"

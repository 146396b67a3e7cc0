"""Conditions and expressions as SQL. Conditions have three values, as in SQL itself.

Above it: `patterns`, `reads`, `mutations`. Below it: `searches`, `emitting`. Blocks are patterns again: `block`
compiles them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from penstock.graph.query.tree import RankKind, TextMatchKind
from penstock.graph.schema.model import Base, ListOf, Scalar, ValueType, Vector
from penstock.graph.sql.emitting import Emitter, NodeSource, NotCompilableError, Scope
from penstock.graph.sql.searches import compile_bm25, text_candidates
from penstock.graph.typing.patterns import (
    AggregateValue,
    All,
    Any,
    BlockExists,
    BlockValue,
    Compare,
    ConstantList,
    ConstantValue,
    ContainsItem,
    ContainsText,
    FieldValue,
    InList,
    IsNullTest,
    MetaField,
    MetaValue,
    NodeObject,
    Not,
    NowValue,
    ParameterValue,
    Pattern,
    RankFusion,
    RankValue,
    StartsWith,
    TextSearch,
    TruthTest,
    TypedCondition,
    TypedExpression,
)

__all__ = ["Block", "compile_condition", "compile_value"]

# Compiles a block: whether it matches, how often, or the sum of an expression over its matches.
Block = Callable[[Emitter, Pattern, Scope, str, FieldValue | None], str]


def compile_value(emitter: Emitter, value: TypedExpression, scope: Scope, block: Block) -> str:
    """An expression."""
    match value:
        case ConstantValue() | ConstantList() | ParameterValue() | NowValue():
            return emitter.given(value)
        case FieldValue():
            return _field(value, scope)
        case MetaValue():
            return _meta(emitter, value, scope)
        case BlockValue(function=function, argument=argument, pattern=pattern):
            return block(emitter, pattern, scope, function, argument)
        case RankValue():
            return _rank(emitter, value, scope)
        case NodeObject() | AggregateValue() | RankFusion():
            raise AssertionError(f"{type(value).__name__} stands only in columns and orders")
        case _:
            assert_never(value)


def _field(value: FieldValue, scope: Scope) -> str:
    source = scope.find(value.variable)
    if isinstance(source, NodeSource):
        assert source.alias is not None, f"{value.variable} was not joined"
        return f"{source.alias}.{source.table.columns[value.name]}"
    return scope.edge(value.variable).columns[value.name]


def _meta(emitter: Emitter, value: MetaValue, scope: Scope) -> str:
    source = scope.find(value.variable)
    if isinstance(source, NodeSource):
        return source.id if value.field is MetaField.ID else emitter.constant(source.type_name)
    edge = scope.edge(value.variable)
    match value.field:
        case MetaField.ID:
            return edge.id
        case MetaField.SRC:
            return edge.src
        case MetaField.DST:
            return edge.dst
        case MetaField.TYPE:
            return edge.type


def _rank(emitter: Emitter, value: RankValue, scope: Scope) -> str:
    if not emitter.dialect.has_text_search:
        message = f"{value.kind.value} is not available in {emitter.dialect.name}"
        raise NotCompilableError("GRAPH_RANK_UNSUPPORTED", message)
    subject, query = _field(value.subject, scope), emitter.given(value.query)
    if value.kind is RankKind.NEAREST:
        return f"graph_distance({subject}, {query})"
    source = scope.find(value.subject.variable)
    assert isinstance(source, NodeSource)
    return compile_bm25(emitter, source, value.subject.name, query)


def compile_condition(
    emitter: Emitter, condition: TypedCondition, scope: Scope, block: Block, *, keeps: bool = True
) -> str:
    """A condition, in parentheses where it needs them. With `keeps`, only whether it is true matters."""
    match condition:
        case All(operands) | Any(operands):
            word = " AND " if isinstance(condition, All) else " OR "
            parts = [compile_condition(emitter, each, scope, block, keeps=keeps) for each in operands]
            return f"({word.join(parts)})"
        case Not(operand):
            return f"(NOT {compile_condition(emitter, operand, scope, block, keeps=False)})"
        case BlockExists(pattern, negated):
            return f"({'NOT ' if negated else ''}{block(emitter, pattern, scope, 'exists', None)})"
        case TextSearch():
            return _text_search(emitter, condition, scope, keeps=keeps)
        case _:
            return _test(emitter, condition, lambda value: compile_value(emitter, value, scope, block))


_Test = Compare | ContainsItem | ContainsText | StartsWith | IsNullTest | InList | TruthTest


def _test(emitter: Emitter, condition: _Test, sql: Callable[[TypedExpression], str]) -> str:
    dialect = emitter.dialect
    match condition:
        case Compare(left, comparator, right):
            one, other = _comparable(emitter, left, right, sql)
            operator = "<>" if comparator.value == "!=" else comparator.value
            return f"({one} {operator} {other})"
        case ContainsText(text, part):
            return dialect.contains(sql(text), sql(part))
        case StartsWith(text, prefix):
            return dialect.starts_with(sql(text), sql(prefix))
        case IsNullTest(operand, negated):
            return f"({sql(operand)} IS {'NOT ' if negated else ''}NULL)"
        case ContainsItem(items, item):
            return _membership(emitter, items, item, sql)
        case InList(operand, items, negated):
            found = _membership(emitter, items, operand, sql)
            return f"(NOT {found})" if negated else found
        case TruthTest(operand):
            return dialect.truth(sql(operand))
        case _:
            assert_never(condition)


def _comparable(
    emitter: Emitter, left: TypedExpression, right: TypedExpression, sql: Callable[[TypedExpression], str]
) -> tuple[str, str]:
    one, other = _value_type(left), _value_type(right)
    dialect = emitter.dialect
    if not isinstance(one, Scalar) or one.base is Base.STRING:
        return dialect.text(sql(left), one), sql(right)
    return dialect.number(sql(left), one, other), dialect.number(sql(right), other, one)


def _membership(
    emitter: Emitter, items: TypedExpression, item: TypedExpression, sql: Callable[[TypedExpression], str]
) -> str:
    """Whether a list has an item; null if either is."""
    listed = _value_type(items)
    assert isinstance(listed, ListOf)
    list_sql, item_sql = sql(items), sql(item)
    found = emitter.dialect.has_item(list_sql, item_sql, listed.base)
    return f"(CASE WHEN {list_sql} IS NULL OR {item_sql} IS NULL THEN NULL ELSE {found} END)"


def _value_type(value: TypedExpression) -> ValueType:
    assert not isinstance(value, NodeObject)
    return value.type


def _text_search(emitter: Emitter, condition: TextSearch, scope: Scope, *, keeps: bool) -> str:
    if not emitter.dialect.has_text_search:
        message = f"{condition.kind.value} is not available in {emitter.dialect.name}"
        raise NotCompilableError("GRAPH_TEXT_SEARCH_UNSUPPORTED", message)
    assert not isinstance(condition.subject.type, Vector)
    subject, query = _field(condition.subject, scope), emitter.given(condition.query)
    given = [subject, query]
    if condition.kind is TextMatchKind.FUZZY:
        given.append(emitter.given(ConstantValue(condition.distance or 1, Scalar(Base.I32))))
    found = f"(graph_{condition.kind.value}({', '.join(given)}) = 1)"
    source = scope.find(condition.subject.variable)
    if not keeps or not isinstance(source, NodeSource):
        return found  # a row that the index does not find may be one without a text, of which nothing is true
    candidates = text_candidates(emitter, source, condition.subject.name, condition.kind, given[1:])
    return found if candidates is None else f"({candidates} AND {found})"

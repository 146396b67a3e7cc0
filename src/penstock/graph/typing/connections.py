"""The connected components of a pattern's variables, by hops and by conditions.

Above it: `check`. Below it: `patterns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.graph.typing.patterns import (
    All,
    Any,
    BlockExists,
    BlockValue,
    Compare,
    ContainsItem,
    ContainsText,
    FieldValue,
    InList,
    IsNullTest,
    MetaValue,
    Not,
    Pattern,
    StartsWith,
    TextSearch,
    TruthTest,
    TypedCondition,
    TypedExpression,
)

__all__ = ["parts_of", "variables_of"]


def _of_expression(expression: TypedExpression) -> Iterator[str]:
    if isinstance(expression, FieldValue | MetaValue):
        yield expression.variable
    elif isinstance(expression, BlockValue):
        yield from expression.pattern.outer


def variables_of(condition: TypedCondition) -> Iterator[str]:
    """Yield the variables that a condition refers to; of blocks, the outer ones."""
    match condition:
        case Compare(left, _, right):
            yield from (*_of_expression(left), *_of_expression(right))
        case ContainsItem(left, right) | ContainsText(left, right) | StartsWith(left, right) | InList(left, right):
            yield from (*_of_expression(left), *_of_expression(right))
        case IsNullTest(operand) | TruthTest(operand):
            yield from _of_expression(operand)
        case TextSearch():
            yield condition.subject.variable
        case BlockExists(pattern):
            yield from pattern.outer
        case Not(operand):
            yield from variables_of(operand)
        case All(operands) | Any(operands):
            for each in operands:
                yield from variables_of(each)


def _links(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    for hop in pattern.hops:
        yield (hop.source, hop.target) if hop.edge is None else (hop.source, hop.target, hop.edge)
    for condition in pattern.conditions:
        yield tuple(variables_of(condition))


def _joined(parts: list[list[str]], names: Iterable[str]) -> list[list[str]]:
    wanted = set(names)
    together = [name for part in parts if wanted.intersection(part) for name in part]
    others = [part for part in parts if not wanted.intersection(part)]
    return [*others, together] if together else others


def parts_of(pattern: Pattern) -> list[list[str]]:
    """Return the groups of variables that are connected with each other."""
    parts = [*([each.name] for each in pattern.nodes), *([each.name] for each in pattern.edges)]
    for names in _links(pattern):
        parts = _joined(parts, names)
    return parts

"""Clauses, conditions and expressions of the query language as text.

A clause is a list of pieces: texts, and blocks that stand between them on lines of their own.

Above it: the formatter. Below it: `tree`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import (
    Aggregate,
    Alias,
    And,
    Binding,
    BlockAggregate,
    Clause,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Field,
    In,
    IsNull,
    ListLiteral,
    Negation,
    NotBlock,
    Now,
    Or,
    Rank,
    Rrf,
    TextMatch,
    Traversal,
    Truth,
    Variable,
)
from penstock.graph.query.words import RESERVED
from penstock.graph.schema.types import written_fraction
from penstock.graph.syntax.tokens import quoted

__all__ = ["Block", "Written", "written_clause", "written_expression"]

_EDGE = re.compile("[a-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of clauses inside a condition, without its braces."""

    clauses: tuple[Clause, ...]
    position: Position | None


Written: TypeAlias = list[str | Block]


def written_clause(clause: Clause) -> Written:
    """Write a clause."""
    match clause:
        case Binding():
            return [_binding(clause)]
        case Traversal():
            return [_traversal(clause)]
        case NotBlock():
            return ["not ", Block(clause.clauses, clause.position)]
        case _:
            return _merged(_condition(clause))


def _merged(pieces: Written) -> Written:
    """Join texts that stand next to each other."""
    found: Written = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, str) and isinstance(last, str):
            found[-1] = last + piece
        else:
            found.append(piece)
    return found


def _binding(binding: Binding) -> str:
    values = ", ".join(f"{name}: {written_expression(value)}" for name, value in binding.values)
    return f"${binding.variable}: {binding.type_name}" + (f" {{ {values} }}" if values else "")


def _traversal(traversal: Traversal) -> str:
    names = [name if _EDGE.fullmatch(name) and name not in RESERVED else quoted(name) for name in traversal.edges]
    edges = "|".join(names) or "*"
    if traversal.undirected:
        edges = f"<{edges}>"
    elif len(names) > 1:
        edges = f"({edges})"
    bounds = ""
    if traversal.has_bounds:
        bounds = f"{{{traversal.minimum},{'' if traversal.maximum is None else traversal.maximum}}}"
    variable = "" if traversal.edge_variable is None else f"${traversal.edge_variable}:"
    return f"${traversal.source} {variable}{edges}{bounds} ${traversal.target}"


# Conditions


def _condition(condition: Condition) -> Written:
    match condition:
        case Or(operands):
            return _joined(operands, " or ", (Or,))
        case And(operands):
            return _joined(operands, " and ", (Or, And))
        case Negation(operand):
            return ["not ", *_grouped(operand, (Or, And))]
        case Comparison(left, operator, right):
            return [*_operand(left), f" {operator} ", *_operand(right)]
        case IsNull(operand, negated):
            return [*_operand(operand), " is not null" if negated else " is null"]
        case In(operand, items, negated):
            return [*_operand(operand), " not in " if negated else " in ", *_operand(items)]
        case Exists(clauses):
            return ["exists ", Block(clauses, condition.position)]
        case Truth(operand):
            return _operand(operand)
        case TextMatch():
            return [written_expression(condition)]


def _joined(operands: tuple[Condition, ...], word: str, looser: tuple[type, ...]) -> Written:
    found: Written = []
    for index, each in enumerate(operands):
        found.extend([word] if index else [])
        found.extend(_grouped(each, looser))
    return found


def _grouped(condition: Condition, looser: tuple[type, ...]) -> Written:
    """Write a condition, in parentheses if it binds less tightly than what is around it."""
    written = _condition(condition)
    return ["(", *written, ")"] if isinstance(condition, looser) else written


def _operand(expression: Expression) -> Written:
    if not isinstance(expression, BlockAggregate):
        return [written_expression(expression)]
    argument = "" if expression.argument is None else f"({written_expression(expression.argument)})"
    return [f"{expression.function}{argument} ", Block(expression.clauses, expression.position)]


# Expressions


def written_expression(expression: Expression) -> str:
    """Write an expression that has no block in it."""
    match expression:
        case Constant():
            return _constant(expression)
        case ListLiteral(items):
            return f"[{', '.join(map(_constant, items))}]"
        case Variable(name):
            return f"${name}"
        case Field(variable, name):
            return f"${variable}.{name}" if variable else name
        case Now():
            return "now()"
        case Alias(name):
            return name
        case BlockAggregate():
            raise AssertionError("blocks are written by `_operand`")
        case _:
            return _call(expression)


def _call(expression: Aggregate | Rank | Rrf | TextMatch) -> str:
    match expression:
        case Aggregate(function, argument):
            return f"{function}({written_expression(argument)})"
        case Rank(kind, subject, query):
            return f"{kind}({written_expression(subject)}, {written_expression(query)})"
        case Rrf(ranks, k):
            rankings = ", ".join(map(written_expression, ranks))
            return f"rrf({rankings}{'' if k is None else f', {k}'})"
        case TextMatch(kind, subject, query, distance):
            more = "" if distance is None else f", {distance}"
            return f"{kind}({written_expression(subject)}, {written_expression(query)}{more})"


def _constant(constant: Constant) -> str:
    match constant.kind:
        case "string":
            return quoted(str(constant.value))
        case "bool":
            return "true" if constant.value else "false"
        case "date" | "datetime":
            return f"{constant.kind}({quoted(str(constant.value))})"
        case "float":
            return written_fraction(float(constant.value))
        case "integer":
            return str(constant.value)

"""Conditions that are evaluated without libjq: comparisons of paths with constants, joined by `and`, `or` and `not`.

Most expressions of real documents are such conditions. libjq takes ten times as long for them, nearly all of it for
writing its input as text and reading it again. A condition answers as libjq would, or not at all. Some values differ in
detail: an access that fails, numbers that are not exact doubles, the order of unlike types, texts beyond ASCII. For
these it answers None, and libjq evaluates the expression.

Above it: `expressions`. Below it: `syntax`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import isfinite
from typing import Final, TypeAlias

from penstock.base.json import JsonValue
from penstock.definitions.jq.syntax import COMPARISONS, Node, NodeKind

__all__ = ["Condition", "condition_of"]

Condition: TypeAlias = Callable[[JsonValue], bool | None]
"""The result for a root; None if libjq has to evaluate it."""
_Operand: TypeAlias = Callable[[JsonValue], JsonValue]

# Whole numbers up to this size are exact doubles, and so is the sum of two of them.
_EXACT_MAX: Final = 2**52
_ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _NotHere(Exception):
    """libjq has to evaluate this."""


def condition_of(tree: Node) -> Condition | None:
    """Return a program as a condition; None if it is not a condition, or one that only libjq evaluates."""
    try:
        compiled = _truth(tree)
    except _NotHere:
        return None

    def condition(root: JsonValue) -> bool | None:
        try:
            return compiled(root)
        except _NotHere:
            return None

    return condition


def _truth(tree: Node) -> Callable[[JsonValue], bool]:
    """What a program that always gives true or false gives."""
    match tree:
        case Node(kind=NodeKind.BINARY, value="and", children=(left, right)):
            first, second = _is_true(left), _is_true(right)
            return lambda root: first(root) and second(root)
        case Node(kind=NodeKind.BINARY, value="or", children=(left, right)):
            first, second = _is_true(left), _is_true(right)
            return lambda root: first(root) or second(root)
        case Node(kind=NodeKind.PIPE, children=(inner, Node(kind=NodeKind.CALL, value="not", children=()))):
            negated = _is_true(inner)
            return lambda root: not negated(root)
        case Node(kind=NodeKind.BINARY, value=str(name), children=(left, right)) if name in COMPARISONS:
            return _comparison(name, left, right)
        case _:
            raise _NotHere


def _is_true(tree: Node) -> Callable[[JsonValue], bool]:
    """Whether jq treats what a program gives as true."""
    try:
        return _truth(tree)
    except _NotHere:
        operand = _operand(tree)

    def is_true(root: JsonValue) -> bool:
        value = operand(root)
        return value is not None and value is not False

    return is_true


def _comparison(name: str, left: Node, right: Node) -> Callable[[JsonValue], bool]:
    first, second = _operand(left), _operand(right)
    if name == "==":
        return lambda root: _equal(first(root), second(root))
    if name == "!=":
        return lambda root: not _equal(first(root), second(root))
    precedes = _ORDERS[name]
    return lambda root: precedes(_number(first(root)), _number(second(root)))


def _operand(tree: Node) -> _Operand:
    match tree:
        case Node(kind=NodeKind.LITERAL, value=value):
            constant = _constant(value)
            return lambda _root: constant
        case Node(kind=NodeKind.COLLECT, children=()):
            return lambda _root: []
        case Node(kind=NodeKind.OBJECT, children=()):
            return lambda _root: {}
        case Node(kind=NodeKind.IDENTITY):
            return lambda root: root
        case Node(kind=NodeKind.INDEX, children=(target, Node(kind=NodeKind.LITERAL, value=str(name)))):
            return _member(_operand(target), name)
        case Node(kind=NodeKind.BINARY, value="//", children=(left, right)):
            return _alternative(_operand(left), _operand(right))
        case Node(kind=NodeKind.BINARY, value="+", children=(left, right)):
            first, second = _operand(left), _operand(right)
            return lambda root: _whole(first(root)) + _whole(second(root))
        case Node(kind=NodeKind.BINARY, value="-", children=(left, right)):
            first, second = _operand(left), _operand(right)
            return lambda root: _whole(first(root)) - _whole(second(root))
        case _:
            raise _NotHere


def _constant(value: str | float | bool | None) -> JsonValue:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_MAX:
        return int(value)
    return value


def _member(target: _Operand, name: str) -> _Operand:
    def member(root: JsonValue) -> JsonValue:
        value = target(root)
        if value is None:
            return None
        if isinstance(value, dict):
            return value.get(name)
        raise _NotHere  # an error, in libjq's wording

    return member


def _alternative(left: _Operand, right: _Operand) -> _Operand:
    def alternative(root: JsonValue) -> JsonValue:
        value = left(root)
        return right(root) if value is None or value is False else value

    return alternative


def _equal(left: JsonValue, right: JsonValue) -> bool:
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        if left.isascii() and right.isascii():
            return left == right
        raise _NotHere
    if isinstance(left, list | dict) and isinstance(right, list | dict):
        if type(left) is not type(right):
            return False
        if not left or not right:
            return not left and not right
        raise _NotHere  # members are compared by the same rules
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _number(left) == _number(right)
    return False


def _number(value: JsonValue) -> float:
    """A number that libjq compares as Python does."""
    if isinstance(value, float) and isfinite(value):
        return value
    return _whole(value)


def _whole(value: JsonValue) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -_EXACT_MAX <= value <= _EXACT_MAX:
        return value
    raise _NotHere

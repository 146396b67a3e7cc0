"""Reads the conditions of policies: what of a request they depend on, and what remains if part of it is unknown.

A list asks whether any arguments could be permitted, before there are any. So a condition is evaluated with three
values: what depends on something unknown is neither true nor false. `at_best` replaces it by what makes the condition
hold, `at_worst` by what makes it fail; both are exact where nothing unknown is read. A permit that may hold at best may
list a tool, and only a forbid that holds at worst hides one.

Above it: `sets`. Below it: nothing but the JSON form of Cedar's expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

__all__ = ["Expression", "Path", "approximated", "conditions_of", "entity_types_of", "paths_of"]

Expression: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]
"""A variable and the attributes that are read of it: ("context", "input", "amount"). A shorter path reads it all."""

_TRUE: Expression = {"Value": True}
_FALSE: Expression = {"Value": False}


def conditions_of(body: dict[str, Any]) -> list[Expression]:
    """Return the conditions of a policy, each as an expression that has to be true."""
    return [
        item["body"] if item["kind"] == "when" else {"!": {"arg": item["body"]}} for item in body.get("conditions", [])
    ]


def paths_of(expression: Any) -> Iterator[Path]:
    """Yield everything of a request that an expression reads."""
    if isinstance(expression, list):
        for item in expression:
            yield from paths_of(item)
        return
    if not isinstance(expression, dict) or "Value" in expression:
        return
    path = _path(expression)
    if path is not None:
        yield path
        return
    # The names in a record are the author's, and could be mistaken for operators.
    members = expression["Record"].values() if "Record" in expression else expression.values()
    for member in members:
        yield from paths_of(member)


def entity_types_of(expression: Any) -> Iterator[str]:
    """Yield the types of the entities that an expression names: `Group` for `principal in Group::"leads"`."""
    if isinstance(expression, list):
        for item in expression:
            yield from entity_types_of(item)
    elif isinstance(expression, dict):
        entity = expression.get("__entity")
        if isinstance(entity, dict):
            yield str(entity.get("type"))
        for member in expression.values():
            yield from entity_types_of(member)


def _path(expression: Expression) -> Path | None:
    """Return the path of an expression that only reads attributes of a variable."""
    if "Var" in expression:
        return (str(expression["Var"]),)
    for operator in (".", "has"):
        read = expression.get(operator)
        if isinstance(read, dict) and isinstance(read.get("left"), dict):
            before = _path(read["left"])
            return None if before is None else (*before, str(read["attr"]))
    return None


def approximated(expression: Expression, is_known: Callable[[Path], bool], *, at_best: bool) -> Expression:
    """Return a condition that reads nothing unknown: one that holds whenever the given one may, or must, hold.

    `at_best` true: it holds if the given one holds for some values of what is unknown; false: for all values.
    """
    if all(map(is_known, paths_of(expression))):
        return expression
    unknown = _TRUE if at_best else _FALSE
    if len(expression) != 1:
        return unknown
    ((operator, operands),) = expression.items()
    if operator in ("&&", "||"):
        left = approximated(operands["left"], is_known, at_best=at_best)
        right = approximated(operands["right"], is_known, at_best=at_best)
        return {operator: {"left": left, "right": right}}
    if operator == "!":
        return {"!": {"arg": approximated(operands["arg"], is_known, at_best=not at_best)}}
    if operator == "if-then-else":
        return _alternatives(operands, is_known, at_best=at_best)
    return unknown


def _alternatives(operands: Expression, is_known: Callable[[Path], bool], *, at_best: bool) -> Expression:
    chosen = approximated(operands["then"], is_known, at_best=at_best)
    other = approximated(operands["else"], is_known, at_best=at_best)
    test = operands["if"]
    if all(map(is_known, paths_of(test))):
        return {"if-then-else": {"if": test, "then": chosen, "else": other}}
    return {"||" if at_best else "&&": {"left": chosen, "right": other}}

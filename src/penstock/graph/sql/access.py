"""How the rows of a node variable can be found: by identifier, a key, an index, words, or only by reading all.

Above it: `patterns`. Below it: `walking`, `emitting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from penstock.graph.schema.model import Base, Index, Key, NodeType, Scalar, Unique
from penstock.graph.schema.model import Enum as EnumType
from penstock.graph.sql.emitting import Scope
from penstock.graph.sql.walking import free_variables
from penstock.graph.typing.patterns import (
    All,
    Comparator,
    Compare,
    FieldValue,
    MetaField,
    MetaValue,
    NodeVariable,
    TextSearch,
    TypedCondition,
    TypedExpression,
)
from penstock.graph.typing.patterns import Any as AnyOf

__all__ = [
    "Access",
    "end_values",
    "find_access",
    "identifier_values",
    "indexed_columns",
    "is_found_by_text",
    "is_text_key",
]


class Access(Enum):
    """From the best to the worst."""

    SINGLE = auto()
    INDEX = auto()
    TEXT = auto()
    SCAN = auto()


def is_text_key(type_: NodeType) -> bool:
    """Whether the key is a single text, which is then the identifier itself."""
    if type_.key is None or len(type_.key) != 1:
        return False
    value = type_.by_name[type_.key[0]].type
    return isinstance(value, EnumType) or value == Scalar(Base.STRING)


def indexed_columns(type_: NodeType) -> tuple[tuple[str, ...], ...]:
    """The properties that have an index of their own, in the order in which they are declared."""
    found = []
    for each in type_.constraints:
        if isinstance(each, Unique | Index) or (isinstance(each, Key) and not is_text_key(type_)):
            found.append(each.properties)
    return tuple(dict.fromkeys(found))


def _equal_to(
    name: str, conditions: Iterable[TypedCondition], scope: Scope
) -> list[tuple[FieldValue | MetaValue, TypedExpression]]:
    """What fields of a variable must be equal to, as far as that is known before the variable is."""
    found: list[tuple[FieldValue | MetaValue, TypedExpression]] = []
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.comparator is not Comparator.EQUAL:
            continue
        for own, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if not isinstance(own, FieldValue | MetaValue) or own.variable != name:
                continue
            if all(scope.find(each) is not None for each in free_variables(other)):
                found.append((own, other))
    return found


def find_access(node: NodeVariable, conditions: Iterable[TypedCondition], scope: Scope) -> Access:
    """The best way to find a node."""
    equal = _equal_to(node.name, conditions, scope)
    fixed = {own.name for own, _ in equal if isinstance(own, FieldValue)}
    if any(isinstance(own, MetaValue) and own.field is MetaField.ID for own, _ in equal):
        return Access.SINGLE
    if any(isinstance(each, Key | Unique) and fixed.issuperset(each.properties) for each in node.type.constraints):
        return Access.SINGLE
    return Access.INDEX if any(each[0] in fixed for each in indexed_columns(node.type)) else Access.SCAN


def end_values(
    name: str, conditions: Iterable[TypedCondition], scope: Scope
) -> list[tuple[MetaField, TypedExpression]]:
    """What the ends of an edge must be equal to, as far as that is known before the edge is."""
    return [
        (own.field, other)
        for own, other in _equal_to(name, conditions, scope)
        if isinstance(own, MetaValue) and own.field in (MetaField.SRC, MetaField.DST)
    ]


def is_found_by_text(node: NodeVariable, condition: TypedCondition, indexed: Callable[[str], bool]) -> bool:
    """Whether text indexes find all nodes for which a condition can hold. `indexed` says which properties have one."""
    match condition:
        case TextSearch(subject=subject):
            return subject.variable == node.name and indexed(subject.name)
        case All(operands):
            return any(is_found_by_text(node, each, indexed) for each in operands)
        case AnyOf(operands):
            return all(is_found_by_text(node, each, indexed) for each in operands)
        case _:
            return False


def identifier_values(node: NodeVariable, conditions: Iterable[TypedCondition], scope: Scope) -> list[TypedExpression]:
    """What the identifier of a node must be equal to because its key is, if the key is a single text."""
    if not is_text_key(node.type) or node.type.key is None:
        return []
    (key,) = node.type.key
    equal = _equal_to(node.name, conditions, scope)
    return [other for own, other in equal if isinstance(own, FieldValue) and own.name == key]

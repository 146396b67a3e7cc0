"""Which variables a part of a checked query needs.

Above it: `patterns`, `reads`, `mutations`. Below it: `typing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from penstock.graph.schema.model import EdgeType, NodeType, Property
from penstock.graph.typing.patterns import AggregateValue, BlockValue, FieldValue, MetaValue, NodeObject, Pattern

__all__ = ["free_variables", "parts_of", "variables_with_properties"]

_OPAQUE = (NodeType, EdgeType, Property)


def parts_of(part: Any) -> Iterator[Any]:
    """A part of a query and all parts in it, without the types that it names."""
    if isinstance(part, tuple):
        for each in part:
            yield from parts_of(each)
    elif is_dataclass(part) and not isinstance(part, _OPAQUE):
        yield part
        for each in fields(part):
            yield from parts_of(getattr(part, each.name))


def variables_with_properties(part: Any) -> frozenset[str]:
    """The variables whose properties are read; of all others, only the identifier is needed."""
    return frozenset(each.variable for each in parts_of(part) if isinstance(each, FieldValue | NodeObject))


def free_variables(part: Any) -> frozenset[str]:
    """The variables that a condition or an expression needs from the pattern around it."""
    if isinstance(part, tuple):
        return frozenset().union(*map(free_variables, part))
    if isinstance(part, FieldValue | MetaValue | NodeObject):
        return frozenset((part.variable,))
    if isinstance(part, AggregateValue):
        return frozenset((part.variable,))
    if isinstance(part, BlockValue):  # its argument may read what the block binds
        return free_variables(part.pattern) | (free_variables(part.argument) - _bound_in(part.pattern))
    if isinstance(part, Pattern):
        ends = {end for hop in part.hops for end in (hop.source, hop.target)}
        return frozenset(ends | free_variables(part.conditions)) - _bound_in(part)
    if is_dataclass(part) and not isinstance(part, _OPAQUE):
        return frozenset().union(*(free_variables(getattr(part, each.name)) for each in fields(part)))
    return frozenset()


def _bound_in(pattern: Pattern) -> frozenset[str]:
    return frozenset(each.name for each in pattern.nodes) | frozenset(each.name for each in pattern.edges)

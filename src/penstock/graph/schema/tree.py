"""The syntax tree of the schema language, as it is written, with positions.

Positions never take part in comparisons of trees. `resolve` makes a `Schema` of a tree; the formatter prints it.

Above it: the parser, the formatter and `resolve`. Below it: the value types and constraints of `model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.definitions.source.findings import Position
from penstock.graph.schema.model import Annotation, Cardinality, Constraint, ValueType

__all__ = [
    "ConstraintDeclaration",
    "Declaration",
    "EdgeDeclaration",
    "InterfaceDeclaration",
    "Member",
    "Name",
    "NodeDeclaration",
    "PropertyDeclaration",
]


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a type, where it is used."""

    text: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDeclaration:
    """`name: Type? @annotation`. Values of an enum are in the order in which they are written."""

    name: str
    type: ValueType
    nullable: bool = False
    annotations: tuple[Annotation, ...] = ()
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ConstraintDeclaration:
    """`@key(…)`, `@unique(…)`, `@index(…)`, `@range(…)` or `@check(…)` in a body."""

    constraint: Constraint
    position: Position | None = field(default=None, compare=False)


Member: TypeAlias = PropertyDeclaration | ConstraintDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceDeclaration:
    """`interface Name { … }`."""

    name: str
    members: tuple[Member, ...] = ()
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeclaration:
    """`node Name @annotation implements A, B { … }`."""

    name: str
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    members: tuple[Member, ...] = ()
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDeclaration:
    """`edge Name: Source -> Target @card(0..1) @annotation { … }`."""

    name: str
    source: Name
    target: Name
    cardinality: Cardinality | None = None
    annotations: tuple[Annotation, ...] = ()
    members: tuple[Member, ...] = ()
    position: Position | None = field(default=None, compare=False)


Declaration: TypeAlias = InterfaceDeclaration | NodeDeclaration | EdgeDeclaration

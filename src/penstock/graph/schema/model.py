"""The model of a schema: value types, properties, node types, edge types and their constraints.

A schema that was parsed without errors is complete: properties of interfaces are copied into the types that implement
them, constraints of single properties stand with those of the type, and every name can be resolved.

Above it: the parser and the formatter of `.pg`, `query`, `typing`, `sql`, the stores. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from penstock.definitions.source.findings import Position

__all__ = [
    "Annotation",
    "AnnotationValue",
    "Base",
    "Cardinality",
    "Check",
    "Constraint",
    "EdgeType",
    "EntityType",
    "Enum",
    "Index",
    "Interface",
    "Key",
    "ListOf",
    "NodeType",
    "Property",
    "Range",
    "Scalar",
    "Schema",
    "Unique",
    "ValueType",
    "Vector",
]


class Base(StrEnum):
    """The base types, as they are written."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE_TIME = "DateTime"
    DATE = "Date"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value of a base type."""

    base: Base


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of a base type. Lists are not nested, and have no null items."""

    base: Base


@dataclass(frozen=True, slots=True)
class Enum:
    """A text that is one of these values, which are sorted and distinct."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """A list of exactly this many 32-bit floating-point numbers."""

    dimension: int


ValueType: TypeAlias = Scalar | ListOf | Enum | Vector
AnnotationValue: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An annotation as it is written: `@name(value, option=value)`. Unknown ones are kept."""

    name: str
    value: AnnotationValue | None = None
    options: tuple[tuple[str, AnnotationValue], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property of a node or edge type."""

    name: str
    type: ValueType
    nullable: bool = False
    annotations: tuple[Annotation, ...] = ()
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Key:
    """The properties that identify a node. A node type has one key at most."""

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    """No two live entities of the type agree in all of these. On an edge type, `src` and `dst` name its ends."""

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """Queries look these up often."""

    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A number lies between these bounds, both included. None means no bound."""

    property: str
    minimum: float | int | None
    maximum: float | int | None


@dataclass(frozen=True, slots=True)
class Check:
    """A text matches this regular expression as a whole."""

    property: str
    pattern: str


Constraint: TypeAlias = Key | Unique | Index | Range | Check


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of a type may leave one source node. `maximum` None means any number."""

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Properties that several node types share."""

    name: str
    properties: tuple[Property, ...]
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class NodeType:
    """A type of nodes, with the properties of its interfaces."""

    name: str
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...] = ()
    implements: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    position: Position | None = field(default=None, compare=False)

    @cached_property
    def by_name(self) -> Mapping[str, Property]:
        """The properties by name."""
        return {each.name: each for each in self.properties}

    @cached_property
    def key(self) -> tuple[str, ...] | None:
        """The properties of the key; None if identifiers are generated."""
        return next((each.properties for each in self.constraints if isinstance(each, Key)), None)

    @cached_property
    def searched(self) -> tuple[str, ...]:
        """The texts that have an index of their words (`@search`)."""
        return tuple(each.name for each in self.properties if any(one.name == "search" for one in each.annotations))


@dataclass(frozen=True, kw_only=True)
class EdgeType:
    """A type of edges between two node types. Their identifiers are generated."""

    name: str
    source: str
    target: str
    properties: tuple[Property, ...] = ()
    cardinality: Cardinality = Cardinality()
    constraints: tuple[Constraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    position: Position | None = field(default=None, compare=False)

    @cached_property
    def by_name(self) -> Mapping[str, Property]:
        """The properties by name."""
        return {each.name: each for each in self.properties}

    @property
    def query_name(self) -> str:
        """The name in queries: it begins with a small letter there."""
        return self.name[0].lower() + self.name[1:]


EntityType: TypeAlias = NodeType | EdgeType


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A whole schema, in the order in which it is written."""

    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    interfaces: tuple[Interface, ...] = ()

    @cached_property
    def node_types(self) -> Mapping[str, NodeType]:
        """Node types by name."""
        return {each.name: each for each in self.nodes}

    @cached_property
    def edge_types(self) -> Mapping[str, EdgeType]:
        """Edge types by their declared name."""
        return {each.name: each for each in self.edges}

    @cached_property
    def _edges_in_queries(self) -> Mapping[str, EdgeType]:
        return {each.name.lower(): each for each in self.edges}

    def edge_in_query(self, name: str) -> EdgeType | None:
        """Find an edge type by its name in a query, whatever its case."""
        return self._edges_in_queries.get(name.lower())

    def entity_type(self, name: str) -> EntityType | None:
        """Find a node type or an edge type by its declared name."""
        return self.node_types.get(name) or self.edge_types.get(name)

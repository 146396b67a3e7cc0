"""Patterns of checked queries: variables, hops, conditions and typed expressions.

What they mean is written here, next to the parts that say it.

**Matches.** A `Pattern` has variables, hops and conditions. A match gives every variable of the pattern a node (or an
edge) such that all hops exist and all conditions are true. The rows of a read are its matches: one row for each
combination of nodes and bound edges.

**Hops.** A hop without an edge variable is a set of pairs: two nodes that several parallel edges connect match once.
With an edge variable there is one match for each edge. A hop of `minimum` to `maximum` steps matches nodes by their
shortest distance from `source`: a search that visits each node once, so a node that can be reached in one step does
not match `{2,3}`. The start itself is reached only by its own self-loop, which counts as one step; never by a longer
cycle. Alternatives are one search over all members. Edges of `Direction.BOTH` are followed either way, and a
self-loop matches once.

**Anonymous nodes.** Each `$_` is a variable of its own, and takes part in the number of rows.

**Conditions** have three values. A comparison with a missing value is neither true nor false, and so is its negation: a
null never matches. Only `IsNullTest`, and `Not`/`All`/`Any` by the rules of three-valued logic, make something else of
it. A condition keeps a row only if it is true.

Above it: `model`, `check`, `sql`, `parameters`. Below it: `schema.model` and `values`. It computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import RankKind, TextMatchKind
from penstock.graph.schema.model import Base, EdgeType, Enum, ListOf, NodeType, Property, Scalar, ValueType, Vector
from penstock.graph.values import GraphItem

__all__ = [
    "TARGET",
    "AggregateValue",
    "All",
    "Any",
    "BlockExists",
    "BlockValue",
    "Comparator",
    "Compare",
    "ConstantList",
    "ConstantValue",
    "ContainsItem",
    "ContainsText",
    "Direction",
    "EdgeVariable",
    "EntityKind",
    "FieldValue",
    "Hop",
    "HopEdge",
    "InList",
    "IsNullTest",
    "MetaField",
    "MetaValue",
    "NodeObject",
    "NodeObjectType",
    "NodeVariable",
    "Not",
    "NowValue",
    "ParameterValue",
    "Pattern",
    "RankFusion",
    "RankValue",
    "StartsWith",
    "TextSearch",
    "TruthTest",
    "TypedCondition",
    "TypedExpression",
]

_STRING = Scalar(Base.STRING)
_F64 = Scalar(Base.F64)
_DATE_TIME = Scalar(Base.DATE_TIME)

TARGET = ""
"""The name of the variable in the condition of a mutation: the entity that is updated or deleted."""


class EntityKind(StrEnum):
    """Nodes or edges."""

    NODE = "node"
    EDGE = "edge"


class Direction(StrEnum):
    """How a hop follows an edge type, seen from the hop's source variable."""

    OUT = "out"
    """The source variable is the edge's source."""
    IN = "in"
    """The source variable is the edge's target."""
    BOTH = "both"
    """Either; the edge type connects a node type with itself."""


class MetaField(StrEnum):
    """What every node or edge has beside its properties. All are texts that are never null."""

    ID = "@id"
    SRC = "@src"
    """Identifier of an edge's source node."""
    DST = "@dst"
    """Identifier of an edge's target node."""
    TYPE = "@type"
    """The declared name of the node type or edge type."""


class Comparator(StrEnum):
    """A comparison of two values that have an order, or of two values for equality."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


# Variables and patterns


@dataclass(frozen=True, slots=True)
class NodeVariable:
    """A variable that stands for a node of exactly this type.

    An anonymous one has a name that no query can write (`_#1`, `_#2`, …): names are not SQL identifiers.
    """

    name: str
    type: NodeType
    anonymous: bool = False
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class EdgeVariable:
    """A variable that stands for one edge of one of these types, which are distinct and in declared order.

    The wildcard may select no type at all; the hop then matches nothing.
    """

    name: str
    types: tuple[EdgeType, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class HopEdge:
    """One edge type of a hop, with its direction."""

    type: EdgeType
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A traversal from one node variable to another. Both may be the same variable (a self-loop).

    `edges` are distinct, in declared order, and connect the same pair of node types; it is empty only for a wildcard
    that selects nothing. If `maximum` is above 1, source and target have the same node type. `edge` names the edge
    variable and implies one step.
    """

    source: str
    target: str
    edges: tuple[HopEdge, ...]
    edge: str | None = None
    minimum: int = 1
    maximum: int = 1
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A block of clauses: the `match` of a read, or a block inside a condition.

    `nodes` and `edges` are the variables that this block binds itself, in the order in which they appear; hops and
    conditions may also name variables of the blocks around it, which are listed in `outer` (empty for a `match`; never
    empty otherwise). Properties in the braces of a binding are conditions here: equality, or `ContainsItem` for a list
    property. Every condition must be true.
    """

    nodes: tuple[NodeVariable, ...]
    edges: tuple[EdgeVariable, ...] = ()
    hops: tuple[Hop, ...] = ()
    conditions: tuple[TypedCondition, ...] = ()
    outer: tuple[str, ...] = ()


# Expressions: each has `type` and `nullable`


@dataclass(frozen=True, slots=True)
class ConstantValue:
    """A literal, in the form of `penstock.graph.values` for its type (which is that of the other side, if it fits)."""

    value: GraphItem
    type: Scalar | Enum
    nullable: Literal[False] = False


@dataclass(frozen=True, slots=True)
class ConstantList:
    """A list literal: for a list property, or to the right of `in`. It may be empty."""

    value: tuple[GraphItem, ...]
    type: ListOf | Vector
    nullable: Literal[False] = False


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """A parameter of the query, by name without `$`."""

    name: str
    type: Scalar | ListOf | Vector
    nullable: bool


@dataclass(frozen=True, slots=True)
class NowValue:
    """The time of the call, one and the same in the whole call."""

    type: Scalar = _DATE_TIME
    nullable: Literal[False] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldValue:
    """A property of a variable.

    `owners` are the declared names of the types that the variable may have: one, or several for an edge variable over
    alternatives, all of which have the property. `type` and `nullable` hold for all of them.
    """

    variable: str
    kind: EntityKind
    owners: tuple[str, ...]
    name: str
    type: ValueType
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaValue:
    """`@id`, `@src`, `@dst` or `@type` of a variable. Only edges have `@src` and `@dst`."""

    variable: str
    kind: EntityKind
    field: MetaField
    type: Scalar = _STRING
    nullable: Literal[False] = False


@dataclass(frozen=True, slots=True)
class NodeObjectType:
    """The type of a whole node: an object with `@id` and these properties, without Blobs and Vectors."""

    node_type: str
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class NodeObject:
    """A bare node variable in `return`."""

    variable: str
    type: NodeObjectType
    nullable: Literal[False] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateValue:
    """An aggregate over the rows of a group.

    `count` (I64, never null) counts rows for a variable (`argument` is `None`), otherwise values that are not null.
    `sum` and `avg` are F64, `min` and `max` have the type of their argument; they ignore nulls and are null if nothing
    is left. Without group columns, an aggregated read has exactly one row, even if nothing matches.
    """

    function: Literal["count", "sum", "avg", "min", "max"]
    argument: FieldValue | MetaValue | None
    variable: str
    """The variable of the argument."""
    type: ValueType
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RankValue:
    """`nearest` (distance of a Vector property: small is good) or `bm25` (score of a text: large is good)."""

    kind: RankKind
    subject: FieldValue
    query: ConstantValue | ConstantList | ParameterValue
    type: Scalar = _F64
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RankFusion:
    """`rrf`: the sum of `1 / (k + place)` over two rankings; large is good."""

    ranks: tuple[RankValue, RankValue]
    k: int
    type: Scalar = _F64
    nullable: Literal[False] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockValue:
    """`count {…}` (I64) or `sum(e) {…}` (F64) over the matches of a block; 0 without non-null values."""

    function: Literal["count", "sum"]
    argument: FieldValue | None
    pattern: Pattern
    type: Scalar
    nullable: Literal[False] = False


TypedExpression: TypeAlias = (
    ConstantValue
    | ConstantList
    | ParameterValue
    | NowValue
    | FieldValue
    | MetaValue
    | NodeObject
    | AggregateValue
    | RankValue
    | RankFusion
    | BlockValue
)


# Conditions


@dataclass(frozen=True, slots=True)
class Compare:
    """`left comparator right`. Both sides have the same type, are both numbers, or are a text and an enum.

    Numbers of different types are compared by value, exactly. Lists, Vectors and Blobs are never compared, Bool only
    for equality.
    """

    left: TypedExpression
    comparator: Comparator
    right: TypedExpression


@dataclass(frozen=True, slots=True)
class ContainsItem:
    """The list has an item that equals the value: `contains` on a list, and a list property in binding braces."""

    items: TypedExpression
    item: TypedExpression


@dataclass(frozen=True, slots=True)
class ContainsText:
    """The text has the part in it, exactly, case and all. No character is a wildcard."""

    text: TypedExpression
    part: TypedExpression


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The text begins with the prefix, exactly, case and all. No character is a wildcard."""

    text: TypedExpression
    prefix: TypedExpression


@dataclass(frozen=True, slots=True)
class IsNullTest:
    """Whether the value is missing (or, `negated`, present). Never null itself."""

    operand: TypedExpression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList:
    """The value equals an item of the list, which is a constant, a list parameter or a list property.

    A missing value, and a missing list, make it null. Lists have no null items.
    """

    operand: TypedExpression
    items: TypedExpression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class BlockExists:
    """`exists {…}`, or `not {…}` if `negated`. Never null."""

    pattern: Pattern
    negated: bool = False


@dataclass(frozen=True, slots=True)
class TruthTest:
    """A Bool field, parameter or constant by itself."""

    operand: TypedExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSearch:
    """`search`, `fuzzy` or `match_text`."""

    kind: TextMatchKind
    subject: FieldValue
    query: ConstantValue | ParameterValue
    distance: int | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """The operand is false."""

    operand: TypedCondition


@dataclass(frozen=True, slots=True)
class All:
    """Every operand is true."""

    operands: tuple[TypedCondition, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Some operand is true."""

    operands: tuple[TypedCondition, ...]


TypedCondition: TypeAlias = (
    Compare
    | ContainsItem
    | ContainsText
    | StartsWith
    | IsNullTest
    | InList
    | BlockExists
    | TruthTest
    | TextSearch
    | Not
    | All
    | Any
)

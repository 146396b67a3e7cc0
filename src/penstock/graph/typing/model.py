"""The checked form of a query: every name is resolved and every expression has its type.

Patterns, conditions and expressions, and what they mean, are in `patterns`.

**Order** is total. Nulls are first in ascending and last in descending order. Rows that are equal in all keys follow
the identifiers of the variables in `CheckedRead.tie_break`, ascending. Rows of an aggregated read follow its group
columns.

**Columns** are named by alias. Without one, a field is `var.prop` (or `var.@id`), and a bare variable or parameter is
  `var`. An aggregate has the name of its argument, and a rank and `now()` the name of the function.

Above it: `check` (which makes it), `sql`, `parameters`. Below it: `patterns`. It computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.graph.schema.model import EdgeType, ListOf, NodeType, Property, Scalar, ValueType, Vector
from penstock.graph.typing.patterns import (
    ConstantList,
    ConstantValue,
    NodeObjectType,
    NowValue,
    ParameterValue,
    Pattern,
    TypedCondition,
    TypedExpression,
)

__all__ = [
    "Assignment",
    "CheckedMutation",
    "CheckedParameter",
    "CheckedQuery",
    "CheckedRead",
    "Column",
    "ColumnType",
    "DeleteEdges",
    "DeleteNodes",
    "InsertEdge",
    "InsertNode",
    "MutationStep",
    "Order",
    "UpdateNodes",
]

# Reads

ColumnType: TypeAlias = ValueType | NodeObjectType


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the answer. Names are distinct."""

    name: str
    expression: TypedExpression
    type: ColumnType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Order:
    """One key of the order: a single value, a ranking, or (for a column of a whole node) the identifier of the node.

    `column` is the index of the column that it repeats or names; None for anything else. Rankings are descending where
    large is good, whatever is written.
    """

    expression: TypedExpression
    descending: bool = False
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRead:
    """`match … return … order … limit …`.

    If any column has an aggregate, the read is aggregated: the others (`group_by`, by index) are its group columns; a
    group by a bare node variable is a group by node. `tie_break` names the variables whose identifiers make the order
    total: all variables of the pattern, anonymous ones included, in order of appearance, nodes before edges. It is
    empty for an aggregated read.
    """

    pattern: Pattern
    columns: tuple[Column, ...]
    aggregated: bool = False
    group_by: tuple[int, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    tie_break: tuple[str, ...] = ()


# Mutations


@dataclass(frozen=True, slots=True)
class Assignment:
    """A property gets a value: a constant, a parameter or the time of the call. Null only if the property is nullable.

    A nullable parameter may be assigned to a property that is not nullable: whether it is null is known at the call,
    which then refuses it.
    """

    property: Property
    value: ConstantValue | ConstantList | ParameterValue | NowValue


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertNode:
    """A new node. Properties that are not assigned are null. The type's `key` says what identifies it."""

    type: NodeType
    values: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertEdge:
    """A new edge between two nodes, given by identifier (a text)."""

    type: EdgeType
    source: ConstantValue | ParameterValue
    target: ConstantValue | ParameterValue
    values: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNodes:
    """Every node of the type for which the condition is true gets these values. Key properties are never assigned."""

    type: NodeType
    values: tuple[Assignment, ...]
    where: TypedCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteNodes:
    """Every node of the type for which the condition is true is deleted, with all edges at it."""

    type: NodeType
    where: TypedCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEdges:
    """Every edge of the type for which the condition is true is deleted. `from` and `to` are `@src` and `@dst`."""

    type: EdgeType
    where: TypedCondition


MutationStep: TypeAlias = InsertNode | InsertEdge | UpdateNodes | DeleteNodes | DeleteEdges


@dataclass(frozen=True, slots=True)
class CheckedMutation:
    """One or more steps, done in order in one transaction, each of which sees those before it.

    Either all of them delete, or none does.
    """

    steps: tuple[MutationStep, ...]

    @property
    def deletes(self) -> bool:
        """Whether it deletes; otherwise it inserts and updates."""
        return isinstance(self.steps[0], DeleteNodes | DeleteEdges)

    @property
    def only_inserts(self) -> bool:
        """Whether nothing that exists is changed or deleted."""
        return all(isinstance(step, InsertNode | InsertEdge) for step in self.steps)


# Queries


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedParameter:
    """A parameter. `values` are those of the one enum property that it is used with, if with nothing else."""

    name: str
    type: Scalar | ListOf | Vector
    nullable: bool = False
    description: str | None = None
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuery:
    """A query that fits its schema. `reads` and `writes` are declared names of node and edge types, sorted.

    `reads` has every type that may be looked at, `writes` every type that may be changed (deleting nodes may delete
    edges of every type at them).
    """

    name: str
    parameters: tuple[CheckedParameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    expose: bool = True
    tool_name: str | None = None
    body: CheckedRead | CheckedMutation
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def is_mutation(self) -> bool:
        """Whether it changes the graph."""
        return isinstance(self.body, CheckedMutation)

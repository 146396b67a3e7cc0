"""The syntax tree of the query language, as it is written, with positions.

A file holds declarations. Each is a read (`match` … `return` …) or one or more mutations. Conditions are trees of
`And`, `Or` and `Negation` over comparisons; pattern clauses bind variables. Positions never take part in comparisons
of trees.

Above it: the parser, the formatter and `typing`. Below it: the value types of `schema.model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from penstock.definitions.source.findings import Position
from penstock.graph.schema.model import ListOf, Scalar, Vector

__all__ = [
    "Aggregate",
    "Alias",
    "And",
    "Binding",
    "BlockAggregate",
    "Clause",
    "Comparison",
    "Condition",
    "Constant",
    "Delete",
    "Exists",
    "Expression",
    "Field",
    "In",
    "Insert",
    "IsNull",
    "ListLiteral",
    "Mutation",
    "Negation",
    "NotBlock",
    "Now",
    "Operator",
    "Or",
    "Ordering",
    "Parameter",
    "Projection",
    "Query",
    "Rank",
    "RankKind",
    "Read",
    "Rrf",
    "TextMatch",
    "TextMatchKind",
    "Traversal",
    "Truth",
    "Update",
    "Variable",
]


class Operator(StrEnum):
    """A comparison, as it is written."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


# Expressions


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. `kind` separates a date from the text that it is written as."""

    value: str | int | float | bool
    kind: Literal["string", "integer", "float", "bool", "date", "datetime"]
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """A list of literals."""

    items: tuple[Constant, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`: a bound variable or a parameter; only `typing` can tell which. `$_` is anonymous."""

    name: str
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Field:
    """`$variable.name`. Names that begin with `@` are `@id`, `@src`, `@dst` and `@type`."""

    variable: str
    name: str
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Now:
    """`now()`: the time of the call, the same in all its places."""

    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Alias:
    """The name of an output column, in `order`."""

    name: str
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count`, `sum`, `avg`, `min` or `max` of an expression over the rows of a group."""

    function: Literal["count", "sum", "avg", "min", "max"]
    argument: Expression
    position: Position | None = field(default=None, compare=False, kw_only=True)


class RankKind(StrEnum):
    """How rows are ranked."""

    NEAREST = "nearest"
    BM25 = "bm25"


@dataclass(frozen=True, slots=True)
class Rank:
    """`nearest($x.p, e)` (a distance: small is good) or `bm25($x.p, q)` (a score: large is good)."""

    kind: RankKind
    subject: Field
    query: Expression
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Rrf:
    """`rrf(rank, rank[, k])`: reciprocal rank fusion of two rankings."""

    ranks: tuple[Rank, ...]
    k: int | None = None
    position: Position | None = field(default=None, compare=False, kw_only=True)


class TextMatchKind(StrEnum):
    """How a text is searched."""

    SEARCH = "search"
    FUZZY = "fuzzy"
    MATCH_TEXT = "match_text"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`search(f, q)`, `fuzzy(f, q[, n])` or `match_text(f, q)`: a condition."""

    kind: TextMatchKind
    subject: Field
    query: Expression
    distance: int | None = None
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class BlockAggregate:
    """`count { … }` or `sum(e) { … }`: a value over the matches of a block that refers to outer variables."""

    function: Literal["count", "sum"]
    argument: Expression | None
    clauses: tuple[Clause, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


Expression: TypeAlias = (
    Constant | ListLiteral | Variable | Field | Now | Alias | Aggregate | Rank | Rrf | TextMatch | BlockAggregate
)


# Conditions


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`."""

    left: Expression
    operator: Operator
    right: Expression
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`e is null`, or `e is not null`."""

    operand: Expression
    negated: bool = False
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class In:
    """`e in list`, where the list is a literal or a list parameter."""

    operand: Expression
    items: Expression
    negated: bool = False
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Exists:
    """`exists { … }`: whether a block that refers to outer variables matches."""

    clauses: tuple[Clause, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Truth:
    """An expression that is true or false by itself: a Bool field, a Bool parameter."""

    operand: Expression
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Negation:
    """`not condition`, in three-valued logic."""

    operand: Condition
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class And:
    """Every operand holds."""

    operands: tuple[Condition, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Or:
    """Some operand holds."""

    operands: tuple[Condition, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


Condition: TypeAlias = Comparison | IsNull | In | Exists | Truth | TextMatch | Negation | And | Or


# Clauses of a `match`


@dataclass(frozen=True, slots=True)
class Binding:
    """`$v: Type { property: value, … }`."""

    variable: str
    type_name: str
    values: tuple[tuple[str, Expression], ...] = ()
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$a $w:edge{m,n} $b`. `<edge>` is undirected, `(a|b)` any of several, `*` every edge type (no names)."""

    source: str
    target: str
    edges: tuple[str, ...]
    """The names as they are written; empty for the wildcard."""
    edge_variable: str | None = None
    undirected: bool = False
    minimum: int | None = None
    maximum: int | None = None
    has_bounds: bool = False
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class NotBlock:
    """`not { … }`: the block matches nothing."""

    clauses: tuple[Clause, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


Clause: TypeAlias = Binding | Traversal | NotBlock | Condition


# Declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`$name: Type?`, with its own `@description`."""

    name: str
    type: Scalar | ListOf | Vector
    nullable: bool = False
    description: str | None = None
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Projection:
    """One column of the answer."""

    expression: Expression
    alias: str | None = None
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Ordering:
    """One key of the order."""

    expression: Expression
    descending: bool = False
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """`match { … } return { … } order { … } limit n`."""

    match: tuple[Clause, ...]
    returns: tuple[Projection, ...]
    order: tuple[Ordering, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """`insert Type { property: value, … }`; an edge has `from` and `to`."""

    type_name: str
    values: tuple[tuple[str, Expression], ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`update Type set { … } where condition`. Fields of the condition have the empty variable name."""

    type_name: str
    values: tuple[tuple[str, Expression], ...]
    where: Condition
    position: Position | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`delete Type where condition`."""

    type_name: str
    where: Condition
    position: Position | None = field(default=None, compare=False, kw_only=True)


Mutation: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A declaration: a name, parameters, texts, and a read or mutations."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    description: str | None = None
    instruction: str | None = None
    expose: bool | None = None
    """What `@mcp(expose: …)` says; None if nothing."""
    tool_name: str | None = None
    """What `@mcp(tool_name: …)` says."""
    body: Read | tuple[Mutation, ...]
    position: Position | None = field(default=None, compare=False, kw_only=True)

    @property
    def is_mutation(self) -> bool:
        """Whether it changes the graph."""
        return isinstance(self.body, tuple)

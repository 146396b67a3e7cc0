"""What the parts of one statement share: its bound values, fresh names, where variables come from, what a view shows.

**Visibility.** A view is a chain of branches `b0`, `b1`, … from the branch itself down to the common root. Each has the
  last commit that is seen: `s0`, `s1`, …. A row is visible under two conditions. Its own branch is in the chain and its
  version is valid at that branch's commit; and no nearer branch has a valid version of the same entity, dead or not.

Above it: `conditions`, `hops`, `patterns`, `reads`, `mutations`, and the statements of the stores that need no query.
Below it: `dialects`, `layout`, `statement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from penstock.graph.schema.model import Base, Scalar, ValueType
from penstock.graph.sql.dialects import Dialect
from penstock.graph.sql.layout import NO_TEXT_INDEXES, Layout, Table, TextIndex, TextIndexes, text_index
from penstock.graph.sql.statement import Bound, Corpus
from penstock.graph.typing.patterns import ConstantList, ConstantValue, NowValue, ParameterValue

__all__ = [
    "EdgeJoin",
    "EdgeSource",
    "Emitter",
    "Given",
    "NodeSource",
    "NotCompilableError",
    "Scope",
    "Source",
    "visible",
    "visible_edges",
]

Given: TypeAlias = ConstantValue | ConstantList | ParameterValue | NowValue


class NotCompilableError(Exception):
    """The dialect cannot express a query exactly. `code` and the message go to the author of the query."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class NodeSource:
    """Where a node variable comes from. Without `alias`, only its identifier is known."""

    id: str
    table: Table
    type_name: str
    alias: str | None


@dataclass(frozen=True, slots=True)
class EdgeSource:
    """Where an edge variable comes from. All are SQL expressions."""

    id: str
    src: str
    dst: str
    type: str
    columns: Mapping[str, str]


Source: TypeAlias = NodeSource | EdgeSource


@dataclass(frozen=True, slots=True)
class EdgeJoin:
    """Edges that are found by one end: what to join, and under which condition. The alias has `src` and `dst`."""

    sources: tuple[str, ...]
    condition: str
    row: str
    """The alias with the identifier and the properties, if the whole edges are needed."""


@dataclass(slots=True)
class Scope:
    """The variables that are bound so far, and those of the blocks around."""

    outer: Scope | None = None
    own: dict[str, Source] = field(default_factory=dict)

    def find(self, name: str) -> Source | None:
        """Where a variable comes from; None if it is not bound yet."""
        found = self.own.get(name)
        return found if found is not None or self.outer is None else self.outer.find(name)

    def node(self, name: str) -> NodeSource:
        """A node variable that is bound."""
        found = self.find(name)
        assert isinstance(found, NodeSource)
        return found

    def edge(self, name: str) -> EdgeSource:
        """An edge variable that is bound."""
        found = self.find(name)
        assert isinstance(found, EdgeSource)
        return found


class Emitter:
    """Collects the values of a statement, and gives out names."""

    def __init__(
        self,
        dialect: Dialect,
        layout: Layout,
        depth: int,
        needed: frozenset[str] = frozenset(),
        text_indexes: TextIndexes = NO_TEXT_INDEXES,
    ) -> None:
        self.dialect = dialect
        self.layout = layout
        self.depth = depth
        self.needed = needed
        """The variables whose properties are read."""
        self.text_indexes = text_indexes
        self.searched: set[tuple[str, str]] = set()
        """The tables and columns of texts that are searched or ranked."""
        self.found_by_text: set[str] = set()
        """The aliases of tables whose rows a text index finds."""
        self.corpora: list[Corpus] = []
        self.bound: list[Bound] = []
        self.scans = 0
        self._names: dict[str, int] = {}
        self._parameters: dict[tuple[str, ValueType], str] = {}

    def name(self, prefix: str) -> str:
        """A name that is not used yet."""
        number = self._names[prefix] = self._names.get(prefix, -1) + 1
        return f"{prefix}{number}"

    def given(self, value: Given) -> str:
        """A placeholder for a value of the query."""
        match value:
            case ParameterValue(name, type_, _):
                known = self._parameters.get((name, type_))
                if known is None:
                    known = self._parameters[name, type_] = self.name("a")
                    self.bound.append(Bound(known, "parameter", type_, parameter=name))
                return self.dialect.placeholder(known)
            case NowValue():
                known = self._parameters.get(("", value.type))
                if known is None:
                    known = self._parameters["", value.type] = self.name("a")
                    self.bound.append(Bound(known, "now", Scalar(Base.DATE_TIME)))
                return self.dialect.placeholder(known)
            case ConstantValue(constant, type_) | ConstantList(constant, type_):
                placeholder = self.name("k")
                self.bound.append(Bound(placeholder, "constant", type_, value=constant))
                return self.dialect.placeholder(placeholder)

    def constant(self, value: str) -> str:
        """A placeholder for a text that the compiler itself gives."""
        return self.given(ConstantValue(value, Scalar(Base.STRING)))

    def text_index(self, table: Table, name: str) -> TextIndex | None:
        """The index of the words of a property, if there is one."""
        column = table.columns[name]
        self.searched.add((table.name, column))
        return text_index(table.name, column) if (table.name, column) in self.text_indexes else None

    def statistics(self, table: Table, column: str, query: str) -> str:
        """A placeholder for the statistics of a column and a query, which is a placeholder itself."""
        name = self.name("statistics")
        self.corpora.append(Corpus(name, table, column, query.removeprefix(self.dialect.placeholder(""))))
        return self.dialect.placeholder(name)

    def visible(self, alias: str, table: Table) -> str:
        """The condition that the view shows a row."""
        return visible(self.dialect, alias, table, self.depth)

    def edges(self, alias: str, table: Table, near: str, *, whole: bool) -> EdgeJoin:
        """The visible edges of a table, to be found by one end. `whole` asks for identifiers and properties."""
        return visible_edges(self.dialect, alias, table, near, self.depth, whole=whole)


def visible_edges(  # what `visible` takes, and the end
    dialect: Dialect, alias: str, table: Table, near: str, depth: int, *, whole: bool
) -> EdgeJoin:
    """The edges that a view of so many branches shows, to be found by one end."""
    sources, conditions, row = [f"{table.hops(near)} AS {alias}"], [], alias
    if whole:
        row = f"{alias}_row"
        sources.append(f"{table.name} AS {row}")
        conditions.append(f"{row}.rid = {alias}.rid")
    conditions.append(_visible(dialect, alias, depth, "", partial(_overridden, dialect, alias, table)))
    return EdgeJoin(tuple(sources), " AND ".join(conditions), row)


def visible(dialect: Dialect, alias: str, table: Table, depth: int, *, prefix: str = "") -> str:
    """The condition that a view of so many branches shows a row. `prefix` distinguishes two views in one statement."""
    return _visible(dialect, alias, depth, prefix, partial(_has_nearer, dialect, alias, table, prefix))


def _visible(dialect: Dialect, alias: str, depth: int, prefix: str, is_hidden: Callable[[int], str]) -> str:
    """`is_hidden` gives the condition that a branch nearer than a level hides the row."""

    def branch(level: int) -> str:
        return dialect.placeholder(f"{prefix}b{level}")

    def valid(level: int) -> str:
        seq = dialect.placeholder(f"{prefix}s{level}")
        return f"{alias}.c_from <= {seq} AND {alias}.c_to > {seq}"

    if depth == 1:
        return f"{alias}.br = {branch(0)} AND {valid(0)} AND {alias}.dead = 0"
    # No OR: SQLite would look for the rows of each branch by themselves, and then for those that it found twice.
    levels = [f"WHEN {branch(0)} THEN {valid(0)}"]
    levels += [f"WHEN {branch(level)} THEN {valid(level)} AND NOT {is_hidden(level)}" for level in range(1, depth)]
    branches = ", ".join(map(branch, range(depth)))
    return f"{alias}.br IN ({branches}) AND {alias}.dead = 0 AND CASE {alias}.br {' '.join(levels)} END"


def _nearer(dialect: Dialect, prefix: str, level: int) -> str:
    branch = dialect.placeholder(f"{prefix}b{level}")
    seq = dialect.placeholder(f"{prefix}s{level}")
    return f"(nearer.br = {branch} AND nearer.c_from <= {seq} AND nearer.c_to > {seq})"


def _has_nearer(dialect: Dialect, alias: str, table: Table, prefix: str, level: int) -> str:
    nearer = " OR ".join(_nearer(dialect, prefix, each) for each in range(level))
    return f"EXISTS (SELECT 1 FROM {table.name} AS nearer WHERE nearer.id = {alias}.id AND ({nearer}))"


def _overridden(dialect: Dialect, alias: str, table: Table, level: int) -> str:
    """The same for an edge of which only the row is known. What a branch overrides it overrides for good."""
    nearer = " OR ".join(
        f"(br = {dialect.placeholder(f'b{each}')} AND c_from <= {dialect.placeholder(f's{each}')})"
        for each in range(level)
    )
    return f"EXISTS (SELECT 1 FROM {table.overrides} WHERE rid = {alias}.rid AND ({nearer}))"

"""Where a graph is stored: a table for each node and edge type, and a column for each property.

Names of tables and columns are numbers with a prefix, given once and never used again. So a rename changes nothing that
is stored, and an older schema can still read what a newer one has dropped.

Every row is a version of an entity on one branch (`br`), valid for commits from `c_from` up to, but not including,
`c_to`, which is `OPEN` for the current one. A row with `dead` says that the entity is deleted here, though a branch
below still has it. Edges have `src` and `dst`.

Edges are found by their ends in two further tables, one for each end (`Table.hops`), with a row for each version.
They are tables and no indexes so that a load can write them in their own order, at its end: to write an index in the
order of something else changes a page of it for every row.

These tables have no identifiers. So a further one (`Table.overrides`) says which rows a branch hides: those of edges
that it inherits and has versions of its own of, from the commit on that wrote the first of them.

A property with `@search` has an index of the words of all versions, of every branch, by the number of the row (`rid`).

Above it: everything in `sql`, the stores. Below it: `schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from penstock.graph.schema.model import EntityType, NodeType, Schema
from penstock.graph.schema.plan import SchemaPlan
from penstock.graph.schema.steps import RenameProperty, RenameType

__all__ = [
    "NO_TEXT_INDEXES",
    "OPEN",
    "Layout",
    "Table",
    "TextIndex",
    "TextIndexes",
    "key_column",
    "layout_from_json",
    "layout_to_json",
    "new_layout",
    "next_layout",
    "text_index",
]

OPEN = 1 << 62
"""The end of a version that has not ended."""


@dataclass(frozen=True, slots=True)
class Table:
    """The table of a type, and the columns of its properties."""

    name: str
    is_node: bool
    columns: Mapping[str, str]
    next_column: int

    def hops(self, near: str) -> str:
        """The table in which edges are found by one of their ends, `src` or `dst`."""
        return f"{self.name}_{'out' if near == 'src' else 'in'}"

    @property
    def overrides(self) -> str:
        """The table of the inherited edges that branches have other versions of."""
        return f"{self.name}_over"


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of a graph, by the declared name of their type."""

    prefix: str
    tables: Mapping[str, Table]
    next_table: int

    def column(self, type_name: str, name: str) -> str:
        """The column of a property."""
        return self.tables[type_name].columns[name]


TextIndexes: TypeAlias = frozenset[tuple[str, str]]
"""The tables and columns whose index of words is complete, so that it can be used."""
NO_TEXT_INDEXES: TextIndexes = frozenset()


@dataclass(frozen=True, slots=True)
class TextIndex:
    """The names of the tables that make up the index of one column."""

    words: str
    terms: str
    lengths: str


def text_index(table: str, column: str) -> TextIndex:
    """The index of the words of a column. Its names do not begin like those of tables of types."""
    name = f"text_{table}_{column}"
    return TextIndex(name, f"{name}_terms", f"{name}_lengths")


def new_layout(prefix: str, schema: Schema) -> Layout:
    """The layout of a new graph, whose tables begin with a prefix."""
    return _with_missing(Layout(prefix, {}, 1), schema)


def next_layout(layout: Layout, schema: Schema, plan: SchemaPlan) -> Layout:
    """The layout after a plan. Tables and columns of dropped types and properties are no longer named in it."""
    renamed = {step.old_name: step.type_name for step in plan.steps if isinstance(step, RenameType)}
    tables = {renamed.get(name, name): table for name, table in layout.tables.items()}
    for step in plan.steps:
        if isinstance(step, RenameProperty):
            table = tables[step.type_name]
            columns = dict(table.columns)
            columns[step.property_name] = columns.pop(step.old_name)
            tables[step.type_name] = replace(table, columns=columns)
    return _with_missing(Layout(layout.prefix, tables, layout.next_table), schema)


def _with_missing(layout: Layout, schema: Schema) -> Layout:
    tables: dict[str, Table] = {}
    number = layout.next_table
    entities: tuple[EntityType, ...] = (*schema.nodes, *schema.edges)
    for entity in entities:
        known = layout.tables.get(entity.name)
        if known is None:
            known = Table(f"{layout.prefix}_{number}", isinstance(entity, NodeType), {}, 1)
            number += 1
        tables[entity.name] = _with_columns(known, entity)
    return Layout(layout.prefix, tables, number)


def _with_columns(table: Table, entity: EntityType) -> Table:
    columns: dict[str, str] = {}
    number = table.next_column
    for each in entity.properties:
        known = table.columns.get(each.name)
        if known is None:
            known = f"p{number}"
            number += 1
        columns[each.name] = known
    return Table(table.name, table.is_node, columns, number)


def key_column(table: Table, name: str) -> str:
    """The column of a property, or of an end of an edge, in a constraint."""
    return name if not table.is_node and name in ("src", "dst") else table.columns[name]


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """A layout as JSON."""
    tables = {
        name: [table.name, table.is_node, dict(table.columns), table.next_column]
        for name, table in layout.tables.items()
    }
    return {"prefix": layout.prefix, "tables": tables, "next_table": layout.next_table}


def layout_from_json(stored: Mapping[str, Any]) -> Layout:
    """A layout from its JSON."""
    tables = {
        name: Table(table, bool(is_node), dict(columns), int(number))
        for name, (table, is_node, columns, number) in stored["tables"].items()
    }
    return Layout(str(stored["prefix"]), tables, int(stored["next_table"]))

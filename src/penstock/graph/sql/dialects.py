"""How SQLite and PostgreSQL differ. Nothing else in `sql` knows which of the two a statement is for.

Texts are ordered by code points, comparisons of numbers are exact, nulls come first in ascending order: what a dialect
does otherwise by itself is written out here.

SQLite: `CROSS JOIN` keeps the order of the compiler. Functions that begin with `graph_` are ours; the store registers
them. PostgreSQL chooses the order itself.

Above it: `conditions`, `hops`, `patterns`, `reads`. Below it: nothing.
"""

from __future__ import annotations

from typing import Protocol

from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType

__all__ = ["POSTGRESQL", "SQLITE", "Dialect"]

_INTEGERS = (Base.I32, Base.I64, Base.U32, Base.U64)
_FLOATS = (Base.F32, Base.F64)


class Dialect(Protocol):
    """What a statement needs to know about its database."""

    name: str
    has_text_search: bool

    def placeholder(self, name: str) -> str:
        """A bound value."""

    def scan(self, table: str, alias: str) -> str:
        """A table that is read as a whole."""

    def text(self, sql: str, type_: ValueType) -> str:
        """A value that is ordered or compared."""

    def number(self, sql: str, own: ValueType, other: ValueType) -> str:
        """A number that is compared with one of another type."""

    def as_float(self, sql: str) -> str:
        """An integer as a float, for sums."""

    def items(self, sql: str, base: Base) -> str:
        """A table `item(value)` of the items of a list."""

    def has_item(self, items: str, item: str, base: Base) -> str:
        """Whether a list that is not null has an item that is not null."""

    def contains(self, text: str, part: str) -> str:
        """Whether a text has a part."""

    def starts_with(self, text: str, prefix: str) -> str:
        """Whether a text begins with a prefix."""

    def truth(self, sql: str) -> str:
        """A stored Bool as a condition."""

    def as_number(self, condition: str) -> str:
        """A condition as a stored Bool."""


class _Sqlite:
    name = "sqlite"
    has_text_search = True

    def placeholder(self, name: str) -> str:
        return f":{name}"

    def scan(self, table: str, alias: str) -> str:
        return f"{table} AS {alias} NOT INDEXED"

    def text(self, sql: str, type_: ValueType) -> str:
        return sql

    def number(self, sql: str, own: ValueType, other: ValueType) -> str:
        return sql

    def as_float(self, sql: str) -> str:
        return f"CAST({sql} AS REAL)"

    def items(self, sql: str, base: Base) -> str:
        return f"json_each({sql})"

    def has_item(self, items: str, item: str, base: Base) -> str:
        if base in _FLOATS:  # SQLite reads decimal numbers a little differently than Python writes them
            return f"graph_has_float({items}, {item})"
        return f"({item} IN (SELECT value FROM json_each({items})))"

    def contains(self, text: str, part: str) -> str:
        return f"(instr({text}, {part}) > 0)"

    def starts_with(self, text: str, prefix: str) -> str:
        return f"(substr({text}, 1, length({prefix})) = {prefix})"

    def truth(self, sql: str) -> str:
        return f"({sql} = 1)"

    def as_number(self, condition: str) -> str:
        return f"({condition})"


class _Postgresql:
    name = "postgresql"
    has_text_search = False

    def placeholder(self, name: str) -> str:
        return f"%({name})s"

    def scan(self, table: str, alias: str) -> str:
        return f"{table} AS {alias}"

    def text(self, sql: str, type_: ValueType) -> str:
        is_text = isinstance(type_, Enum) or (isinstance(type_, Scalar) and type_.base is Base.STRING)
        return f'({sql} COLLATE "C")' if is_text else sql

    def number(self, sql: str, own: ValueType, other: ValueType) -> str:
        kinds = {_kind(own), _kind(other)}
        return f"({sql})::numeric" if kinds == {"integer", "float"} else sql

    def as_float(self, sql: str) -> str:
        return f"({sql})::double precision"

    def items(self, sql: str, base: Base) -> str:
        return f"jsonb_array_elements_text(({sql})::jsonb) AS item(value)"

    def has_item(self, items: str, item: str, base: Base) -> str:
        return f"(({items})::jsonb @> to_jsonb({item}))"

    def contains(self, text: str, part: str) -> str:
        return f"(strpos({text}, {part}) > 0)"

    def starts_with(self, text: str, prefix: str) -> str:
        return f"starts_with({text}, {prefix})"

    def truth(self, sql: str) -> str:
        return f"({sql} = 1)"

    def as_number(self, condition: str) -> str:
        return f"(CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 0 END)"


def _kind(type_: ValueType) -> str | None:
    if isinstance(type_, Scalar | ListOf):
        if type_.base in _INTEGERS:
            return "integer"
        if type_.base in _FLOATS:
            return "float"
    return None


SQLITE: Dialect = _Sqlite()
POSTGRESQL: Dialect = _Postgresql()

"""A compiled statement: its text, the values to bind, and how its cells become values again.

Stored forms: a Bool is 0 or 1, a list is JSON, a Vector is its 32-bit floats one after the other; everything else is
stored as it is in memory (see `penstock.graph.values`).

Above it: the stores. Below it: `schema.model`, `layout`, `typing`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.graph.schema.model import Base, Enum, ListOf, Scalar, ValueType, Vector
from penstock.graph.sql.layout import NO_TEXT_INDEXES, Table, TextIndexes
from penstock.graph.values import GraphValue

__all__ = [
    "Bound",
    "Cell",
    "Corpus",
    "NodeCell",
    "Statement",
    "ValueCell",
    "bind",
    "decode_row",
    "decode_value",
    "encode_value",
]

_INTEGER_MAX = (1 << 63) - 1
_FLOATS = (Base.F32, Base.F64)


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that is bound: a parameter of the query, a constant of it, or the time of the call."""

    placeholder: str
    source: Literal["parameter", "constant", "now"]
    type: ValueType
    parameter: str = ""
    value: GraphValue | None = None


@dataclass(frozen=True, slots=True)
class ValueCell:
    """One column of the statement is one cell of the answer."""

    type: ValueType


@dataclass(frozen=True, slots=True)
class NodeCell:
    """Several columns of the statement are one node: its identifier, then its properties."""

    properties: tuple[tuple[str, ValueType], ...]


Cell: TypeAlias = ValueCell | NodeCell


@dataclass(frozen=True, slots=True)
class Corpus:
    """A column of texts whose statistics a statement wants, for the query that has another placeholder."""

    placeholder: str
    table: Table
    column: str
    query: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement. Beside `bound`, it wants `b0`, `s0`, … (the branches of the view and how far each is seen).

    A statement with `paged` wants `row_limit` and `row_offset` too, and for each of `corpora` what
    `penstock.graph.text.Bm25Statistics` gives for all texts that the view shows.
    """

    text: str
    bound: tuple[Bound, ...]
    cells: tuple[Cell, ...]
    columns: tuple[str, ...]
    paged: bool
    limit: int | None
    scans: int
    """How many of its tables are read as a whole."""
    searched: TextIndexes = NO_TEXT_INDEXES
    """The texts that it searches or ranks, with or without an index."""
    corpora: tuple[Corpus, ...] = ()
    is_plain: bool = field(init=False)
    """Whether a row of it is a row of the answer as it is: most are, and a call for each cell would cost as much as
    finding it."""

    def __post_init__(self) -> None:
        """Look at the cells once, and not at every row."""
        is_plain = all(isinstance(cell, ValueCell) and _is_stored_as_it_is(cell.type) for cell in self.cells)
        object.__setattr__(self, "is_plain", is_plain)


def _is_stored_as_it_is(type_: ValueType) -> bool:
    if isinstance(type_, Scalar):
        return type_.base is not Base.BOOL and type_.base not in _FLOATS
    return isinstance(type_, Enum)


def bind(statement: Statement, parameters: Mapping[str, GraphValue | None], now: int) -> dict[str, Any]:
    """The values of a statement, in their stored forms."""
    values: dict[str, Any] = {}
    for each in statement.bound:
        if each.source == "parameter":
            value = parameters.get(each.parameter)
        else:
            value = each.value if each.source == "constant" else now
        values[each.placeholder] = encode_value(value, each.type)
    return values


def encode_value(value: GraphValue | None, type_: ValueType) -> Any:
    """The stored form of a value."""
    if value is None:
        return None
    if isinstance(type_, Vector):
        items = [float(item) for item in value]  # type: ignore[union-attr]  # a Vector is a tuple of floats
        return struct.pack(f"<{len(items)}f", *items)
    if isinstance(value, tuple):
        return json.dumps([int(item) if isinstance(item, bool) else item for item in value], ensure_ascii=False)
    if isinstance(value, bool):
        return int(value)
    if isinstance(type_, Scalar) and type_.base in _FLOATS:
        return float(value)
    if isinstance(value, int) and not -_INTEGER_MAX - 1 <= value <= _INTEGER_MAX:
        return (
            float("inf") if value > 0 else float("-inf")
        )  # nothing that large is stored, so comparisons come out right
    return value


def decode_value(cell: Any, type_: ValueType) -> GraphValue | None:
    """A value from its stored form."""
    if cell is None:
        return None
    match type_:
        case Vector(dimension):
            return struct.unpack(f"<{dimension}f", cell)
        case ListOf(base):
            items = json.loads(cell)
            return tuple(map(bool, items)) if base is Base.BOOL else tuple(items)
        case Scalar(Base.BOOL):
            return bool(cell)
        case Scalar(base) if base in _FLOATS:
            return float(cell)
        case _:
            return cell  # type: ignore[no-any-return]  # the column has values of this type only


def decode_row(cells: Sequence[Cell], row: Sequence[Any]) -> tuple[GraphValue | Mapping[str, GraphValue] | None, ...]:
    """A row of the answer from a row of the statement."""
    found: list[GraphValue | Mapping[str, GraphValue] | None] = []
    place = 0
    for cell in cells:
        if isinstance(cell, ValueCell):
            found.append(decode_value(row[place], cell.type))
            place += 1
            continue
        node: dict[str, GraphValue] = {"@id": row[place]}
        for number, (name, type_) in enumerate(cell.properties, place + 1):
            value = decode_value(row[number], type_)
            if value is not None:
                node[name] = value
        found.append(node)
        place += 1 + len(cell.properties)
    return tuple(found)

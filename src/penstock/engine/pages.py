"""Pages: the records of one decision, as they are created and as they are stored.

Most decisions of most runs are a *plain move*: a run begins at an activity, or an activity's result leads to the next
activity or to the end. All but a few values of the records of such a move (the result, a visit, the time) are known in
advance. A `Shape` holds the known part, so a move is stored as these few values alone, and its records are built when
they are read. Every other decision is stored as the records themselves.

A shape is self-contained: it is stored beside the moves that refer to it. Stored moves can therefore be read without
the definition, and by a release that would create different records.

Above it: `outcomes`, `moves` (which creates shapes and moves), the stores. Below it: `records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock.base.encoding import encode_bytes
from penstock.base.errors import CorruptHistory
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import TYPES, Body, Kind, Record, keys_of, payload_of

__all__ = ["Field", "Move", "Page", "RecordShape", "Shape", "expand", "names_of", "records_of", "shape_of"]

_ANYTHING: Any = object()

Source = Literal["constant", "given", "run", "after", "names", "members"]


class Field(msgspec.Struct, frozen=True, array_like=True):
    """One key of a payload, and where its value comes from.

    `constant`: `value` itself. `given`: the move's value with that number. `run`: the run id. `after`: that many
    milliseconds after the time of the move. `names`: the keys of the move's value with that number. `members`: not one
    key, but all members of the move's value with that number.
    """

    name: str
    source: Source
    value: Any = None


class Prototype(msgspec.Struct, frozen=True):
    """A body without the values that differ between moves, and where each of these comes from."""

    body: Body
    run: tuple[str, ...]
    given: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, Field], ...]


class RecordShape(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A record without the values that differ between moves."""

    kind: Kind
    name: str
    fields: tuple[Field, ...]

    @cached_property
    def prototype(self) -> Prototype | None:
        """A body with the constant values, and how the rest is filled in.

        None if a body would not encode to the same payload: another release may have written other keys.
        """
        kind = TYPES.get(self.name)
        if kind is None or kind.record_kind != self.kind:
            return None
        by_key = dict(zip(keys_of(kind), kind.__struct_fields__, strict=True))
        fields = [(by_key.get(field.name, ""), field) for field in self.fields]
        keys = [field.name for field in self.fields]
        constant = {name: field.value for name, field in fields if field.source == "constant"}
        try:
            for value in (_ANYTHING, None):  # any value, and null
                rest = {name: value if field.source == "given" else _ANYTHING for name, field in fields}
                members: Any = {**rest, **constant}
                if list(payload_of(kind(**members))) != keys:
                    return None
        except TypeError:  # the payload has a key that the type lacks, or lacks a required one
            return None
        varying = tuple((name, field) for name, field in fields if field.source != "constant")
        members = {**dict.fromkeys((name for name, _ in varying), None), **constant}
        return Prototype(
            kind(**members),
            tuple(name for name, field in varying if field.source == "run"),
            tuple((name, _number(field)) for name, field in varying if field.source == "given"),
            tuple((name, field) for name, field in varying if field.source not in ("run", "given")),
        )


class Shape(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The records of a move without the values that differ between moves."""

    records: tuple[RecordShape, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the records."""
        return tuple(record.name for record in self.records)

    @cached_property
    def content(self) -> bytes:
        """The shape as it is stored. Equal shapes have equal bytes."""
        return encode_bytes(self)


_SHAPE = msgspec.json.Decoder(Shape)


def shape_of(content: bytes) -> Shape:
    """Decode a stored shape."""
    try:
        return _SHAPE.decode(content)
    except msgspec.DecodeError as error:
        message = f"the shape of a move cannot be read ({error})"
        raise CorruptHistory("STORE_CORRUPT", message, "restore a backup with `penstock server restore`") from None


def expand(shape: Shape, run_id: str, first_seq: int, at: int, values: Sequence[JsonValue]) -> tuple[Record, ...]:
    """Build the records that a move stands for."""
    try:
        return tuple(
            [
                Record(seq, record.kind, record.name, _content(record, run_id, at, values), at)
                for seq, record in enumerate(shape.records, first_seq)
            ]
        )
    except (LookupError, TypeError, AttributeError) as error:
        message = f"row {first_seq} lacks what its shape asks for ({type(error).__name__}: {error})"
        raise CorruptHistory("STORE_CORRUPT", message, "restore a backup with `penstock server restore`") from None


def _content(record: RecordShape, run_id: str, at: int, values: Sequence[Any]) -> Body | JsonObject:
    prototype = record.prototype
    if prototype is None:
        return _filled([(field.name, field) for field in record.fields], run_id, at, values)
    others = prototype.others
    filled = _filled(others, run_id, at, values) if others else {}
    for name in prototype.run:
        filled[name] = run_id
    for name, number in prototype.given:
        filled[name] = values[number]
    return replace(prototype.body, **filled)


def _filled(fields: Iterable[tuple[str, Field]], run_id: str, at: int, values: Sequence[Any]) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for name, field in fields:
        match field.source:
            case "run":
                filled[name] = run_id
            case "constant":
                filled[name] = field.value
            case "given":
                filled[name] = values[_number(field)]
            case "after":
                filled[name] = at + _number(field)
            case "names":
                held = values[_number(field)]
                filled[name] = list(held) if isinstance(held, dict) else []
            case "members":
                filled.update(values[_number(field)])
    return filled


def _number(field: Field) -> int:
    if not isinstance(field.value, int):
        raise TypeError(f"{field.name} has no number")
    return field.value


class Move(msgspec.Struct, frozen=True, gc=False):
    """A plain move: the shape of its records, and its own values.

    `encoded` is the values as JSON; they were already encoded to find their size.
    """

    shape: Shape
    run_id: str
    first_seq: int
    at: int
    values: tuple[JsonValue, ...]
    encoded: bytes

    @property
    def last_seq(self) -> int:
        """The sequence number of the last record."""
        return self.first_seq + len(self.shape.records) - 1

    @property
    def records(self) -> tuple[Record, ...]:
        """The records that it stands for, built on each access."""
        return expand(self.shape, self.run_id, self.first_seq, self.at, self.values)

    def record(self, number: int) -> Record:
        """Build one of the records, counted from 0."""
        single = Shape(self.shape.records[number : number + 1])
        (record,) = expand(single, self.run_id, self.first_seq + number, self.at, self.values)
        return record


Page: TypeAlias = tuple[Record, ...] | Move


def records_of(page: Page) -> tuple[Record, ...]:
    """Return the records of a page in either form."""
    return page.records if isinstance(page, Move) else page


def names_of(page: Page) -> tuple[str, ...]:
    """Return the names of the records of a page. The records of a move are not built for this."""
    return page.shape.names if isinstance(page, Move) else tuple(record.name for record in page)

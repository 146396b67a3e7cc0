"""What every type of record shares: where its keys stand, which of them are always written, and what a fork changes.

A body holds the keys of one payload under Python names, in the order in which they stand on the wire; `executionId`
comes last. Three ways to say that a key may be missing:

- `written()`: we always write it, and a null is a null; where another engine left it out, it reads as None (or as
  UNSET, if it matters that it did);
- a default of None, False or 0: the key is there only if the value is another one;
- a default of UNSET: a missing key and a null mean different things.

Above it: `commands`, `events`. Below it: JSON. It knows no names of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock.base.json import JsonObject, JsonValue

if TYPE_CHECKING:
    Value = JsonValue
    Object = JsonObject
else:  # msgspec cannot read into a recursive type; what JSON gives is a JSON value
    Value = Any
    Object = dict[str, Any]

__all__ = ["Body", "Command", "Event", "Kind", "Object", "Value", "VisitBody", "given", "is_always_written", "written"]

Kind = Literal["command", "event"]
T = TypeVar("T")

_WRITTEN = (type(None), UnsetType, str)


def written(missing: UnsetType | str | None = None) -> Any:
    """A key that we always write; `missing` is its value where another engine did not."""
    # A factory: a plain default would be left out when a record is written.
    return msgspec.field(default_factory=type(missing))


def is_always_written(field: msgspec.structs.FieldInfo) -> bool:
    """Whether a key stands in every record of its type that this engine writes."""
    return field.required or field.default_factory in _WRITTEN


def given(value: T | UnsetType) -> T | None:
    """A value whose key may be missing, where a missing key means the same as null."""
    return None if value is UNSET else value


# `gc=False`: it holds plain JSON and cannot be part of a circle, so the garbage collector need not look at it.
class Body(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """The keys of one payload. The name of the class is the published name of the record."""

    record_kind: ClassVar[Kind]
    times_out: ClassVar[bool] = False
    """Whether its `deadline` says how long something may take; that of a timer says when it is."""
    derived_ids: ClassVar[tuple[str, ...]] = ()
    """The fields whose values may be made from the id of the run."""
    theirs: ClassVar[tuple[str, ...]] = ()
    """The fields that are read where other engines wrote them, and never written here."""

    execution_id: str = ""


class Command(Body, frozen=True):
    """What the engine decided."""

    record_kind: ClassVar[Kind] = "command"


class Event(Body, frozen=True):
    """What happened."""

    record_kind: ClassVar[Kind] = "event"


class VisitBody(Protocol):
    """A body that is about one visit of one node; without a number, about the newest."""

    @property
    def node_id(self) -> str:
        """The node."""

    @property
    def visit(self) -> int | None:
        """Which visit of it."""

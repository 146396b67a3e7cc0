"""What every record type shares: the order of its keys, which of them are always written, and what a fork changes.

A body holds the keys of one payload under Python names, in wire order; `executionId` comes last. There are three ways
to declare that a key may be missing:

- `written()`: we always write it, and a null is a null; if another engine left it out, it reads as None (or as UNSET,
  if the difference matters);
- a default of None, False or 0: the key is written only if the value differs from it;
- a default of UNSET: a missing key and a null mean different things.

Above it: `commands`, `events`. Below it: JSON. It knows no record names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from penstock.base.json import JsonObject, JsonValue

if TYPE_CHECKING:
    Value = JsonValue
    Object = JsonObject
else:  # msgspec cannot decode into a recursive type; decoded JSON is a JSON value anyway
    Value = Any
    Object = dict[str, Any]

__all__ = ["Body", "Command", "Event", "Kind", "Object", "Value", "VisitBody", "given", "is_always_written", "written"]

Kind = Literal["command", "event"]
T = TypeVar("T")

_WRITTEN = (type(None), UnsetType, str)


def written(missing: UnsetType | str | None = None) -> Any:
    """Declare a key that we always write; `missing` is its value if another engine did not."""
    # A factory, because a plain default would be omitted when a record is written.
    return msgspec.field(default_factory=type(missing))


def is_always_written(field: msgspec.structs.FieldInfo) -> bool:
    """Whether a key is in every record of its type that this engine writes."""
    return field.required or field.default_factory in _WRITTEN


def given(value: T | UnsetType) -> T | None:
    """Return a value whose key may be missing, if a missing key means the same as null."""
    return None if value is UNSET else value


# `gc=False`: it holds plain JSON and cannot be part of a reference cycle, so the garbage collector can skip it.
class Body(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """The keys of one payload. The name of the class is the published name of the record."""

    record_kind: ClassVar[Kind]
    times_out: ClassVar[bool] = False
    """Whether its `deadline` limits how long something may take; the deadline of a timer is a point in time instead."""
    derived_ids: ClassVar[tuple[str, ...]] = ()
    """The fields whose values may be derived from the run id."""
    theirs: ClassVar[tuple[str, ...]] = ()
    """The fields that other engines write; we read them and never write them."""

    execution_id: str = ""


class Command(Body, frozen=True):
    """What the engine decided."""

    record_kind: ClassVar[Kind] = "command"


class Event(Body, frozen=True):
    """What happened."""

    record_kind: ClassVar[Kind] = "event"


class VisitBody(Protocol):
    """A body about one visit of one node; without a number, about the newest."""

    @property
    def node_id(self) -> str:
        """The node."""

    @property
    def visit(self) -> int | None:
        """The number of the visit."""

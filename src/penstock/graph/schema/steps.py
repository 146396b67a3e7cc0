"""The steps of a plan from one schema to another, and their form as JSON.

Every step names a type by its new name (dropped types by their old one). `code` says that a step loses data
(`OG-DS-…`) or may fail on the data there is (`OG-MF-…`); `plan` lists the codes.

Above it: `plan`, the stores, the operations. Below it: `model`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.graph.schema.model import Cardinality, Check, Constraint, Property, Range
from penstock.graph.schema.types import written_type

__all__ = [
    "AddConstraint",
    "AddProperty",
    "AddType",
    "ChangeCardinality",
    "DropConstraint",
    "DropMode",
    "DropProperty",
    "DropType",
    "ExtendEnum",
    "MakeNullable",
    "RenameProperty",
    "RenameType",
    "SchemaStep",
    "UnsupportedChange",
    "UpdatePropertyMetadata",
    "UpdateTypeMetadata",
    "step_to_json",
]


class DropMode(StrEnum):
    """How the values of a dropped element are handled."""

    SOFT = "soft"
    """The catalogue forgets the name; older commits still have the values."""
    HARD = "hard"
    """The values are removed from all commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddType:
    """A new type."""

    type_name: str
    is_edge: bool
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameType:
    """A type has another name."""

    type_name: str
    old_name: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropType:
    """A type is gone, with its entities."""

    type_name: str
    is_edge: bool
    mode: DropMode
    code: str | None = "OG-DS-101"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddProperty:
    """A new property, which is null in entities that exist."""

    type_name: str
    property: Property
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameProperty:
    """A property has another name."""

    type_name: str
    property_name: str
    old_name: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropProperty:
    """A property is gone, with its values."""

    type_name: str
    property_name: str
    mode: DropMode
    code: str | None = "OG-DS-102"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeNullable:
    """A property that was required may be null."""

    type_name: str
    property_name: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendEnum:
    """An enum has further values."""

    type_name: str
    property_name: str
    values: tuple[str, ...]
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddConstraint:
    """A new constraint."""

    type_name: str
    constraint: Constraint
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropConstraint:
    """A constraint is gone."""

    type_name: str
    constraint: Constraint
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCardinality:
    """Another number of edges is allowed at one node."""

    type_name: str
    cardinality: Cardinality
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTypeMetadata:
    """Annotations or interfaces of a type have changed; no data has."""

    type_name: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePropertyMetadata:
    """Annotations of a property have changed; no data has."""

    type_name: str
    property_name: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedChange:
    """A change that no plan can make."""

    type_name: str
    message: str
    code: str | None


SchemaStep: TypeAlias = (
    AddType
    | RenameType
    | DropType
    | AddProperty
    | RenameProperty
    | DropProperty
    | MakeNullable
    | ExtendEnum
    | AddConstraint
    | DropConstraint
    | ChangeCardinality
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | UnsupportedChange
)


def _constraint_json(constraint: Constraint) -> JsonObject:
    kind = type(constraint).__name__.lower()
    match constraint:
        case Range():
            bounds: JsonObject = {"minimum": constraint.minimum, "maximum": constraint.maximum}
            return {"kind": kind, "properties": [constraint.property], **bounds}
        case Check():
            return {"kind": kind, "properties": [constraint.property], "pattern": constraint.pattern}
        case _:
            return {"kind": kind, "properties": list(constraint.properties)}


def _details(step: SchemaStep) -> JsonObject:
    match step:
        case AddProperty():
            written = written_type(step.property.type, nullable=step.property.nullable)
            return {"property_name": step.property.name, "type": written}
        case AddConstraint() | DropConstraint():
            return {"constraint": _constraint_json(step.constraint)}
        case ChangeCardinality():
            return {"minimum": step.cardinality.minimum, "maximum": step.cardinality.maximum}
        case ExtendEnum():
            return {"property_name": step.property_name, "values": list(step.values)}
        case _:
            return {
                name: _plain(getattr(step, name))
                for name in ("property_name", "old_name", "is_edge", "mode", "message")
                if hasattr(step, name)
            }


def _plain(value: object) -> JsonValue:
    return value if isinstance(value, bool) else str(value)


def step_to_json(step: SchemaStep) -> JsonObject:
    """Return a step as an object: `step` is its name."""
    found: JsonObject = {"step": type(step).__name__, "type_name": step.type_name, **_details(step)}
    return {**found, "code": step.code} if step.code is not None else found

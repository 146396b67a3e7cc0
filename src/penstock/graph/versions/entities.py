"""What changed of nodes and edges, what is wrong with them, and what two branches disagree about.

Above it: `merging`, the port of the graph store and its adapters. Below it: `records`. It computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.graph.records import GraphRecord
from penstock.graph.typing.patterns import EntityKind

__all__ = [
    "ChangeKind",
    "ConflictKind",
    "EntityChange",
    "LoadMode",
    "MergeConflict",
    "MergeOutcome",
    "Violation",
    "ViolationKind",
]


class LoadMode(StrEnum):
    """What a load does with entities that exist."""

    APPEND = "append"
    """Refuse a record whose identifier exists."""
    MERGE = "merge"
    """Replace the entity with this identifier, or insert it."""
    OVERWRITE = "overwrite"
    """Replace all entities of every type that occurs in the load."""


class ChangeKind(StrEnum):
    """How an entity differs between two versions."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """One entity that differs: as it was before (None if it is inserted), and as it is after (None if deleted)."""

    entity_kind: EntityKind
    type_name: str
    entity_id: str
    kind: ChangeKind
    before: GraphRecord | None
    after: GraphRecord | None


class ViolationKind(StrEnum):
    """Why entities cannot be stored."""

    KEY_CONFLICT = "key_conflict"
    """A record is to be inserted, and its identifier exists."""
    UNIQUE = "unique"
    REQUIRED = "required"
    RANGE = "range"
    CHECK = "check"
    ENUM = "enum"
    CARDINALITY = "cardinality"
    MISSING_END = "missing_end"
    """An edge leads from or to a node that does not exist."""
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_PROPERTY = "unknown_property"
    VALUE = "value"
    """A value cannot be stored: a text with a NUL character, a vector of another length, an identifier that is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One reason why a change was refused. `message` says which constraint, and which values break it."""

    kind: ViolationKind
    entity_kind: EntityKind
    type_name: str
    entity_id: str | None
    message: str
    record: int | None = None
    """In a load, the number of the record, counted from 1; None if the violation shows only at the end."""


class ConflictKind(StrEnum):
    """Why two branches cannot be merged."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """One entity that two branches disagree about, or that would break a constraint after the merge."""

    kind: ConflictKind
    entity_kind: EntityKind
    type_name: str
    entity_id: str | None
    message: str


class MergeOutcome(StrEnum):
    """How a merge went."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    """The target had not changed since the source was forked from it."""
    MERGED = "merged"

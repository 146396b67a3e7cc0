"""The plan from one schema to another: the steps, which of them lose data, and which may fail on existing data.

A type or property is renamed by `@rename_from("old")` on the new one; the annotation has no effect once the old name
is gone. Drops are soft unless the caller allows loss of data: the catalogue forgets the name, and commits from before
still have the values. A hard drop removes them.

| Code | Step | Meaning |
| --- | --- | --- |
| `OG-DS-101` | `DropType` | entities of the type disappear |
| `OG-DS-102` | `DropProperty` | its values disappear |
| `OG-MF-101` | `AddConstraint` | `@unique`: fails if two entities agree |
| `OG-MF-102` | `AddConstraint` | `@range` or `@check`: fails if a value does not fit |
| `OG-MF-103` | `AddProperty` | a required property: fails unless the type has no entities |
| `OG-MF-104` | `ChangeCardinality` | a narrower one: fails if a node has too many or too few edges |
| `OG-MF-105` | `UnsupportedChange` | the key changes, and with it all identifiers |
| `OG-MF-106` | `UnsupportedChange` | a property has another type, or an enum lost values |
| `OG-MF-107` | `UnsupportedChange` | a property that was nullable is required |
| `OG-MF-108` | `UnsupportedChange` | an edge type connects other node types, or a node type became an edge type |

A plan with an `UnsupportedChange` cannot be applied. The others are safe.

Above it: the stores, which apply plans, and the operations, which show them. Below it: `model`, `steps`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.graph.schema.model import (
    Annotation,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    Enum,
    Index,
    Key,
    NodeType,
    Property,
    Range,
    Schema,
    Unique,
)
from penstock.graph.schema.steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    DropConstraint,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MakeNullable,
    RenameProperty,
    RenameType,
    SchemaStep,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from penstock.graph.schema.types import written_type

__all__ = ["SchemaPlan", "plan_schema"]


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """The steps from one schema to another, in the order in which they are applied."""

    steps: tuple[SchemaStep, ...]

    @property
    def supported(self) -> bool:
        """Whether the plan can be applied, if the data allows it."""
        return not any(isinstance(step, UnsupportedChange) for step in self.steps)

    @property
    def loses_data(self) -> bool:
        """Whether something is dropped."""
        return any(isinstance(step, DropType | DropProperty) for step in self.steps)


def plan_schema(old: Schema, new: Schema, *, drop_mode: DropMode = DropMode.SOFT) -> SchemaPlan:
    """Plan the way from one schema to another. Equal schemas have an empty plan."""
    planner = _Planner(old, new, drop_mode)
    return SchemaPlan(tuple(planner.steps()))


def _renamed_from(annotations: Sequence[Annotation]) -> str | None:
    found = next((each.value for each in annotations if each.name == "rename_from"), None)
    return found if isinstance(found, str) else None


def _metadata(annotations: Sequence[Annotation]) -> tuple[Annotation, ...]:
    """Return annotations that are not constraints and have no effect of their own."""
    return tuple(each for each in annotations if each.name not in ("rename_from", "key", "unique", "index"))


def _types(schema: Schema) -> Mapping[str, EntityType]:
    return {**schema.node_types, **schema.edge_types}


class _Planner:
    def __init__(self, old: Schema, new: Schema, drop_mode: DropMode) -> None:
        self.drop_mode = drop_mode
        self.old = _types(old)
        self.new = _types(new)
        self.pairs = self._paired()
        self.names = {before: after for after, before in self.pairs.items()}

    def _paired(self) -> dict[str, str]:
        """Find the old name of every new type that is not new."""
        found = {name: name for name in self.new if name in self.old}
        taken = set(found.values())
        for name, entity in self.new.items():
            before = _renamed_from(entity.annotations)
            if before is not None and name not in found and before in self.old and before not in taken:
                found[name] = before
                taken.add(before)
        return found

    def steps(self) -> Iterator[SchemaStep]:
        """Yield the steps: renames, additions, changes, drops."""
        for name, before in self.pairs.items():
            if name != before:
                yield RenameType(type_name=name, old_name=before)
        for name, entity in self.new.items():
            if name not in self.pairs:
                yield AddType(type_name=name, is_edge=isinstance(entity, EdgeType))
        drops: list[SchemaStep] = []
        for name, before in self.pairs.items():
            for step in self._changes(self.old[before], self.new[name]):
                if isinstance(step, DropProperty):
                    drops.append(step)
                else:
                    yield step
        yield from drops
        dropped = [each for name, each in self.old.items() if name not in self.names]
        for each in sorted(dropped, key=lambda entity: isinstance(entity, NodeType)):
            yield DropType(type_name=each.name, is_edge=isinstance(each, EdgeType), mode=self.drop_mode)

    # One type

    def _changes(self, old: EntityType, new: EntityType) -> Iterator[SchemaStep]:
        if isinstance(old, EdgeType) and isinstance(new, EdgeType):
            yield from self._edge_changes(old, new)
        elif isinstance(old, EdgeType) != isinstance(new, EdgeType):
            message = "a node type cannot become an edge type, or the reverse"
            yield UnsupportedChange(type_name=new.name, message=message, code="OG-MF-108")
            return
        renamed = _renamed_properties(old, new)
        yield from self._property_changes(old, new, renamed)
        yield from _constraint_changes(old, new, {before: after for after, before in renamed.items()})
        if _type_metadata(old) != _type_metadata(new):
            yield UpdateTypeMetadata(type_name=new.name)

    def _edge_changes(self, old: EdgeType, new: EdgeType) -> Iterator[SchemaStep]:
        ends = tuple(self.names.get(name, name) for name in (old.source, old.target))
        if ends != (new.source, new.target):
            message = f"edges led from `{old.source}` to `{old.target}`; declare another edge type"
            yield UnsupportedChange(type_name=new.name, message=message, code="OG-MF-108")
        if old.cardinality != new.cardinality:
            before, after = old.cardinality, new.cardinality
            wider = after.minimum <= before.minimum and (
                after.maximum is None or (before.maximum is not None and after.maximum >= before.maximum)
            )
            yield ChangeCardinality(type_name=new.name, cardinality=after, code=None if wider else "OG-MF-104")

    def _property_changes(self, old: EntityType, new: EntityType, renamed: Mapping[str, str]) -> Iterator[SchemaStep]:
        for after, before in renamed.items():
            yield RenameProperty(type_name=new.name, property_name=after, old_name=before)
        for each in new.properties:
            before_name = renamed.get(each.name, each.name)
            known = old.by_name.get(before_name)
            if known is None:
                yield AddProperty(type_name=new.name, property=each, code=None if each.nullable else "OG-MF-103")
            else:
                yield from _property_change(new.name, known, each)
        kept = {renamed.get(each.name, each.name) for each in new.properties}
        for each in old.properties:
            if each.name not in kept:
                yield DropProperty(type_name=new.name, property_name=each.name, mode=self.drop_mode)


def _renamed_properties(old: EntityType, new: EntityType) -> dict[str, str]:
    """Find the old names of renamed properties by their new names."""
    found: dict[str, str] = {}
    for each in new.properties:
        before = _renamed_from(each.annotations)
        free = before is not None and before not in new.by_name and before not in found.values()
        if each.name not in old.by_name and before in old.by_name and free:
            found[each.name] = str(before)
    return found


def _property_change(type_name: str, old: Property, new: Property) -> Iterator[SchemaStep]:
    if old.type != new.type:
        if isinstance(old.type, Enum) and isinstance(new.type, Enum) and set(old.type.values) <= set(new.type.values):
            added = tuple(value for value in new.type.values if value not in old.type.values)
            yield ExtendEnum(type_name=type_name, property_name=new.name, values=added)
        else:
            message = f"`{new.name}` was {written_type(old.type)} and cannot become {written_type(new.type)}"
            yield UnsupportedChange(type_name=type_name, message=message, code="OG-MF-106")
    if old.nullable and not new.nullable:
        message = f"`{new.name}` was nullable and cannot become required"
        yield UnsupportedChange(type_name=type_name, message=message, code="OG-MF-107")
    if new.nullable and not old.nullable:
        yield MakeNullable(type_name=type_name, property_name=new.name)
    if _metadata(old.annotations) != _metadata(new.annotations):
        yield UpdatePropertyMetadata(type_name=type_name, property_name=new.name)


def _type_metadata(entity: EntityType) -> tuple[object, ...]:
    implements = entity.implements if isinstance(entity, NodeType) else ()
    return (_metadata(entity.annotations), implements)


# Constraints


def _with_names(constraint: Constraint, names: Mapping[str, str]) -> Constraint:
    """Return a constraint with the new names of properties."""
    match constraint:
        case Key(properties):
            return Key(tuple(names.get(each, each) for each in properties))
        case Unique(properties):
            return Unique(tuple(names.get(each, each) for each in properties))
        case Index(properties):
            return Index(tuple(names.get(each, each) for each in properties))
        case Range():
            return Range(names.get(constraint.property, constraint.property), constraint.minimum, constraint.maximum)
        case Check():
            return Check(names.get(constraint.property, constraint.property), constraint.pattern)


def _constraint_changes(old: EntityType, new: EntityType, names: Mapping[str, str]) -> Iterator[SchemaStep]:
    before = [_with_names(each, names) for each in old.constraints]
    keys = [tuple(each for each in found if isinstance(each, Key)) for found in (before, new.constraints)]
    if keys[0] != keys[1]:
        message = "the key identifies nodes and cannot change"
        yield UnsupportedChange(type_name=new.name, message=message, code="OG-MF-105")
    codes: dict[type[Constraint], str] = {Unique: "OG-MF-101", Range: "OG-MF-102", Check: "OG-MF-102"}
    for each in before:
        if each not in new.constraints and not isinstance(each, Key):
            yield DropConstraint(type_name=new.name, constraint=each)
    for each in new.constraints:
        if each not in before and not isinstance(each, Key):
            yield AddConstraint(type_name=new.name, constraint=each, code=codes.get(type(each)))

"""Schemas as JSON, for stores. Positions are not kept.

Above it: the graph stores. Below it: `model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.graph.schema.model import (
    Annotation,
    Base,
    Cardinality,
    Check,
    Constraint,
    EdgeType,
    Enum,
    Index,
    Interface,
    Key,
    ListOf,
    NodeType,
    Property,
    Range,
    Scalar,
    Schema,
    Unique,
    ValueType,
    Vector,
)

__all__ = ["schema_from_json", "schema_to_json"]

_LISTED: dict[str, type[Key | Unique | Index]] = {"key": Key, "unique": Unique, "index": Index}


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """A schema as JSON."""
    return {
        "nodes": [{**_entity(each), "implements": list(each.implements)} for each in schema.nodes],
        "edges": [
            {
                **_entity(each),
                "source": each.source,
                "target": each.target,
                "cardinality": [each.cardinality.minimum, each.cardinality.maximum],
            }
            for each in schema.edges
        ],
        "interfaces": [
            {"name": each.name, "properties": [_property(item) for item in each.properties]}
            for each in schema.interfaces
        ],
    }


def _entity(entity: NodeType | EdgeType) -> dict[str, Any]:
    return {
        "name": entity.name,
        "properties": [_property(each) for each in entity.properties],
        "constraints": [_constraint(each) for each in entity.constraints],
        "annotations": [_annotation(each) for each in entity.annotations],
    }


def _property(item: Property) -> dict[str, Any]:
    return {
        "name": item.name,
        "type": _value_type(item.type),
        "nullable": item.nullable,
        "annotations": [_annotation(each) for each in item.annotations],
    }


def _value_type(type_: ValueType) -> list[Any]:
    match type_:
        case Scalar(base):
            return ["scalar", base.value]
        case ListOf(base):
            return ["list", base.value]
        case Enum(values):
            return ["enum", list(values)]
        case Vector(dimension):
            return ["vector", dimension]


def _annotation(annotation: Annotation) -> list[Any]:
    return [annotation.name, annotation.value, [list(option) for option in annotation.options]]


def _constraint(constraint: Constraint) -> list[Any]:
    match constraint:
        case Range(name, minimum, maximum):
            return ["range", name, minimum, maximum]
        case Check(name, pattern):
            return ["check", name, pattern]
        case Key(names) | Unique(names) | Index(names):
            return [type(constraint).__name__.lower(), list(names)]


def schema_from_json(stored: Mapping[str, Any]) -> Schema:
    """A schema from its JSON."""
    return Schema(
        nodes=tuple(NodeType(**_read_entity(each), implements=tuple(each["implements"])) for each in stored["nodes"]),
        edges=tuple(
            EdgeType(
                **_read_entity(each),
                source=each["source"],
                target=each["target"],
                cardinality=Cardinality(*each["cardinality"]),
            )
            for each in stored["edges"]
        ),
        interfaces=tuple(
            Interface(name=each["name"], properties=tuple(map(_read_property, each["properties"])))
            for each in stored["interfaces"]
        ),
    )


def _read_entity(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": stored["name"],
        "properties": tuple(map(_read_property, stored["properties"])),
        "constraints": tuple(map(_read_constraint, stored["constraints"])),
        "annotations": tuple(map(_read_annotation, stored["annotations"])),
    }


def _read_property(stored: Mapping[str, Any]) -> Property:
    return Property(
        name=stored["name"],
        type=_read_value_type(stored["type"]),
        nullable=stored["nullable"],
        annotations=tuple(map(_read_annotation, stored["annotations"])),
    )


def _read_value_type(stored: list[Any]) -> ValueType:
    kind, content = stored
    match kind:
        case "scalar":
            return Scalar(Base(content))
        case "list":
            return ListOf(Base(content))
        case "enum":
            return Enum(tuple(content))
        case _:
            return Vector(content)


def _read_annotation(stored: list[Any]) -> Annotation:
    name, value, options = stored
    return Annotation(name=name, value=value, options=tuple((option, content) for option, content in options))


def _read_constraint(stored: list[Any]) -> Constraint:
    kind, name, *rest = stored
    match kind:
        case "range":
            return Range(name, rest[0], rest[1])
        case "check":
            return Check(name, rest[0])
        case _:
            return _LISTED[kind](tuple(name))

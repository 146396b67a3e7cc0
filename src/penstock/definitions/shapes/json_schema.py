"""The JSON Schemas of the workflow document, made from the field tables.

`document_schema` is the one file for editors; `published_schema` and `native_schema` are its two halves, which
`checks.shape.document` reads to say what is wrong with a document. The tables are in `fields` and its companions;
nothing is written twice. Nothing here checks a document.
"""

from collections.abc import Iterable
from copy import deepcopy
from functools import cache

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.shapes.document import DOCUMENT, DOCUMENT_SHAPES
from penstock.definitions.shapes.fields import FRAGMENTS, SHARED_SHAPES, Condition, Shape, array_of, ref
from penstock.definitions.shapes.nodes import (
    ACTIVITY_TABLES,
    NODE_PART_SHAPES,
    NODE_TABLES,
    compensation_shape,
    node_shape,
)
from penstock.definitions.shapes.published import (
    PUBLISHED_DOCUMENT,
    PUBLISHED_FRAGMENTS,
    PUBLISHED_NODE_TABLES,
    PUBLISHED_SHAPES,
    published_node_shape,
)

__all__ = [
    "DOCUMENT_SCHEMA_ID",
    "NATIVE_SCHEMA_ID",
    "PUBLISHED_SCHEMA_ID",
    "document_schema",
    "native_schema",
    "published_schema",
    "schema_shapes",
]

DOCUMENT_SCHEMA_ID = "https://penstock.dev/schemas/workflow-v1.json"
NATIVE_SCHEMA_ID = "https://penstock.dev/schemas/workflow-native-v1.json"
PUBLISHED_SCHEMA_ID = "https://penstock.dev/schemas/workflow-published-v1.json"

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NATIVE_SHAPES = (*SHARED_SHAPES, *DOCUMENT_SHAPES, *NODE_PART_SHAPES)
_NODE_SHAPES = tuple(node_shape(table) for table in NODE_TABLES)
_COMPENSATION_SHAPES = tuple(compensation_shape(table) for table in ACTIVITY_TABLES)
_PUBLISHED_NODE_SHAPES = tuple(published_node_shape(table) for table in PUBLISHED_NODE_TABLES)
_PUBLISHED_SHAPES = (*PUBLISHED_SHAPES, *(table.config for table in PUBLISHED_NODE_TABLES))


def native_schema() -> JsonObject:
    """The schema of native documents."""
    return _apart({"$schema": _DRAFT, "$id": NATIVE_SCHEMA_ID, **_object(DOCUMENT), "$defs": _native_definitions()})


def published_schema() -> JsonObject:
    """The schema of published documents; it accepts what the published one accepts, and a signature block."""
    schema: JsonObject = {
        "$schema": _DRAFT,
        "$id": PUBLISHED_SCHEMA_ID,
        **_object(PUBLISHED_DOCUMENT),
        "$defs": _published_definitions(),
    }
    return _apart(schema)


def document_schema() -> JsonObject:
    """The schema for editors: native rules for a document with `penstock`, the published rules for any other."""
    schema: JsonObject = {
        "$schema": _DRAFT,
        "$id": DOCUMENT_SCHEMA_ID,
        "title": "Workflow",
        "description": "A Penstock workflow, or a workflow definition in the published format.",
        "type": "object",
        # Without constraints, so that an editor offers the marker in an empty file.
        "properties": {"penstock": {"description": "The native format and its version: v1.", "examples": ["v1"]}},
        "if": {"required": ["penstock"]},
        "then": ref(DOCUMENT.name),
        "else": ref(PUBLISHED_DOCUMENT.name),
        "$defs": {
            **_native_definitions(),
            **_published_definitions(),
            DOCUMENT.name: _object(DOCUMENT),
            PUBLISHED_DOCUMENT.name: _object(PUBLISHED_DOCUMENT),
        },
    }
    return _apart(schema)


@cache
def schema_shapes() -> dict[str, Shape]:
    """Every table of both formats by the name it has under `$defs`."""
    return {
        shape.name: shape
        for shape in (
            *_NATIVE_SHAPES,
            *_NODE_SHAPES,
            *_COMPENSATION_SHAPES,
            *_PUBLISHED_SHAPES,
            *_PUBLISHED_NODE_SHAPES,
            DOCUMENT,
            PUBLISHED_DOCUMENT,
        )
    }


def _apart(schema: JsonObject) -> JsonObject:
    # A caller may change what it is given; the tables share their fragments and must not change with it.
    return deepcopy(schema)


def _native_definitions() -> JsonObject:
    return {
        **FRAGMENTS,
        **{shape.name: _object(shape) for shape in (*_NATIVE_SHAPES, *_COMPENSATION_SHAPES)},
        **{shape.name: _node(shape) for shape in _NODE_SHAPES},
        **_node_list("", [table.name for table in NODE_TABLES], ref("node_id")),
        "compensate": _compensate(),
    }


def _compensate() -> JsonObject:
    """An activity without an id; a type that is left out follows from the fields."""
    activities = [table.name for table in ACTIVITY_TABLES]
    guessed: JsonObject = ref("compensate_step")
    for field_name, type_name in (("url", "http"), ("tool", "tool_call")):
        guessed = {"if": {"required": [field_name]}, "then": ref(f"compensate_{type_name}"), "else": guessed}
    return {
        "title": "Compensation",
        "description": "The activity that undoes this one: the fields of an activity without an id.",
        "type": "object",
        "properties": {"type": {"type": "string", "enum": [*activities]}},
        "if": {"required": ["type"]},
        "then": {"allOf": [_when_type(name, ref(f"compensate_{name}")) for name in activities]},
        "else": guessed,
    }


def _when_type(name: str, then: JsonObject) -> JsonObject:
    return {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": then}


def _published_definitions() -> JsonObject:
    names = [table.name for table in PUBLISHED_NODE_TABLES]
    return {
        **PUBLISHED_FRAGMENTS,
        **{shape.name: _object(shape) for shape in (*_PUBLISHED_SHAPES, *_PUBLISHED_NODE_SHAPES)},
        **_node_list("published_", names, {"type": "string", "minLength": 1}),
    }


def _node_list(prefix: str, type_names: list[str], node_id: JsonObject) -> JsonObject:
    """A list of nodes, each held to the rules of its own type, so that an editor reports no others."""
    node: JsonObject = {
        "title": "Node",
        "description": "One thing that the workflow does; `type` decides which fields it has.",
        "type": "object",
        # The rules of the type ask for the id.
        "required": ["type"],
        "properties": {"id": node_id, "type": ref(f"{prefix}node_type")},
        "allOf": [_when_type(name, ref(f"{prefix}node_{name}")) for name in type_names],
    }
    return {
        f"{prefix}nodes": {**array_of(ref(f"{prefix}node"), items_min=1), "title": "Nodes"},
        f"{prefix}node": node,
        f"{prefix}node_type": {
            "title": "Node type",
            "description": "What kind of node this is.",
            "type": "string",
            "enum": [*type_names],
        },
    }


def _object(shape: Shape) -> JsonObject:
    needed, rules = _presence(shape)
    return {**_members(shape), **needed, **({"allOf": rules} if rules else {})}


def _node(shape: Shape) -> JsonObject:
    """A native node: its fields may also stand inside `config`, and then only the checks can say what is missing."""
    needed, rules = _presence(shape)
    outside = ("id", "type")
    schema = _members(shape)
    properties = schema["properties"]
    if isinstance(properties, dict):
        inside: JsonObject = {
            member.name: ref(f"{shape.name}/properties/{member.name}")
            for member in shape.fields
            if member.name not in outside
        }
        properties["config"] = {
            "description": "The fields of the node, when they do not stand beside `id` and `type`.",
            "type": "object",
            "properties": inside,
            "additionalProperties": shape.accepts_more,
        }
    rest: JsonObject = {**needed, **({"allOf": rules} if rules else {})}
    return {**schema, "required": [*outside], "if": {"required": ["config"]}, "else": rest}


def _members(shape: Shape) -> JsonObject:
    properties: JsonObject = {
        member.name: {**member.schema, "description": member.description} for member in shape.fields
    }
    schema: JsonObject = {
        "title": shape.title,
        "description": shape.description,
        "type": "object",
        "properties": properties,
    }
    return schema if shape.accepts_more else {**schema, "additionalProperties": False}


def _presence(shape: Shape) -> tuple[JsonObject, list[JsonValue]]:
    """Which members have to be there: the plain list, and the rules between members."""
    needed: list[JsonValue] = [member.name for member in shape.fields if member.required]
    rules: list[JsonObject] = []
    rules.extend({"oneOf": _each_required(names)} for names in shape.exactly_one)
    rules.extend({"anyOf": _each_required(names)} for names in shape.at_least_one)
    rules.extend({"not": {"required": [*names]}} for names in shape.at_most_one)
    rules.extend({"dependentRequired": {name: [*others]}} for name, others in shape.needs)
    rules.extend(_condition(condition) for condition in shape.conditions)
    return ({"required": needed} if needed else {}), [*rules]


def _each_required(names: Iterable[str]) -> list[JsonValue]:
    return [{"required": [name]} for name in names]


def _condition(condition: Condition) -> JsonObject:
    then: JsonObject = (
        {"required": [*condition.then_any]}
        if len(condition.then_any) == 1
        else {"anyOf": _each_required(condition.then_any)}
    )
    return {
        "if": {"properties": {condition.field: {"const": condition.equals}}, "required": [condition.field]},
        "then": then,
    }

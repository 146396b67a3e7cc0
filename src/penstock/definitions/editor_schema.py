"""The JSON Schemas of the workflow document, made from the field tables.

`document_schema` is the single file for editors. `published_schema` and `native_schema` are its two halves;
`checks.shape.document` uses them to say what is wrong with a document. The tables are in `shapes` and in `nodes`, so
that nothing is written twice. This module does not check documents.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from functools import cache

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.node_parts.kind import NodeKind
from penstock.definitions.nodes import ACTIVITY_KINDS, NODE_KINDS, PUBLISHED_KINDS, implied_activity
from penstock.definitions.shapes.document import DOCUMENT, DOCUMENT_SHAPES
from penstock.definitions.shapes.fields import (
    FRAGMENTS,
    OBJECT,
    RETRY_FIELD,
    SHARED_SHAPES,
    STRING,
    TEXT,
    Condition,
    Field,
    Shape,
    array_of,
    choice,
    optional,
    ref,
    required,
)
from penstock.definitions.shapes.published import (
    PUBLISHED_DOCUMENT,
    PUBLISHED_EDGE_SHAPES,
    PUBLISHED_FRAGMENTS,
    PUBLISHED_SHAPES,
)

__all__ = [
    "DOCUMENT_SCHEMA_ID",
    "NATIVE_SCHEMA_ID",
    "NODE_PART_SHAPES",
    "PUBLISHED_SCHEMA_ID",
    "document_schema",
    "native_schema",
    "node_shape",
    "published_schema",
    "schema_shapes",
]

DOCUMENT_SCHEMA_ID = "https://penstock.dev/schemas/workflow-v1.json"
NATIVE_SCHEMA_ID = "https://penstock.dev/schemas/workflow-native-v1.json"
PUBLISHED_SCHEMA_ID = "https://penstock.dev/schemas/workflow-published-v1.json"

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_COMMON_FIELDS = (
    required("id", ref("node_id"), "A name for the node; later expressions read its output under this name."),
    optional("title", TEXT, "A title for people."),
    optional("description", TEXT, "What the node is for."),
    optional("metadata", OBJECT, "Data for your own tools; Penstock ignores it."),
    optional("on_error", ref("error_routes"), "What to do when the node fails."),
    optional("timeout", ref("duration"), "The time limit of the node."),
)
_NEXT_FIELD = optional("next", ref("next"), "The next node, if it is not the next in the list.")
_ACTIVITY_FIELDS = (
    RETRY_FIELD,
    optional("output_schema", ref("json_schema"), "The JSON Schema of the output; enforced when it arrives."),
    optional(
        "effects",
        {**choice("at_least_once", "at_most_once"), "default": "at_least_once"},
        "Whether to retry after an unknown outcome, or wait for a decision.",
    ),
    optional("compensate", ref("compensate"), "The activity that undoes this one when the run fails later."),
    optional("idempotency_key", ref("template"), "A key for the receiver; one per node, visit and run if left out."),
)


def node_shape(kind: NodeKind) -> Shape:
    """Everything that a node of this type may contain, apart from `config`."""
    shared = (
        *_COMMON_FIELDS,
        *((_NEXT_FIELD,) if kind.has_successor else ()),
        *(_ACTIVITY_FIELDS if kind.activity is not None else ()),
    )
    type_field = required("type", {"const": kind.name}, "The node's type.")
    fields = _by_name((*shared[:1], type_field, *kind.shape.fields, *shared[1:]))
    return replace(kind.shape, name=f"node_{kind.name}", fields=fields)


def _compensation_shape(kind: NodeKind) -> Shape:
    """Everything that a compensation of this type may contain: an activity without an id."""
    fields = _by_name(
        (
            optional(
                "type",
                {"const": kind.name},
                "The type of the activity; optional for a step, a tool_call and an http request.",
            ),
            *kind.shape.fields,
            RETRY_FIELD,
            optional("timeout", ref("duration"), "The time limit of the activity."),
        )
    )
    return replace(kind.shape, name=f"compensate_{kind.name}", fields=fields)


def _by_name(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    # A type's own description of a shared field comes first, because it is more precise.
    found: dict[str, Field] = {}
    for member in fields:
        found.setdefault(member.name, member)
    return tuple(found.values())


def _published_shapes(kind: NodeKind) -> tuple[Shape, Shape]:
    """The `config` block of a published node, and the node of this type around it."""
    if kind.published is None:
        raise TypeError(f"the published format has no node type {kind.name}")
    config = kind.published.shape
    config_field = required if kind.published.required else optional
    fields = (
        required("id", STRING, "The node's name."),
        required("type", {"const": kind.name}, "The node's type."),
        config_field("config", ref(config.name), "The node's own fields."),
        optional("retry", ref("published_retry"), "How often, and how fast, to retry a failure."),
        optional("timeout", ref("published_duration"), "The time limit of the node."),
        optional("metadata", OBJECT, "Data for your own tools; Penstock ignores it."),
    )
    inside = {member.name for member in config.fields} - {member.name for member in fields}
    node = Shape(
        name=f"published_node_{kind.name}",
        title=kind.name,
        description=config.description,
        fields=fields,
        hints={name: "the published format puts this inside `config`" for name in sorted(inside)},
    )
    return config, node


NODE_PART_SHAPES = tuple(shape for kind in NODE_KINDS.values() for shape in kind.parts)
_NATIVE_SHAPES = (*SHARED_SHAPES, *DOCUMENT_SHAPES, *NODE_PART_SHAPES)
_NODE_SHAPES = tuple(node_shape(kind) for kind in NODE_KINDS.values())
_COMPENSATION_SHAPES = tuple(_compensation_shape(kind) for kind in ACTIVITY_KINDS)
_PUBLISHED_PARTS = tuple(shape for kind in PUBLISHED_KINDS if kind.published for shape in kind.published.parts)
_PUBLISHED_CONFIGS, _PUBLISHED_NODE_SHAPES = zip(*map(_published_shapes, PUBLISHED_KINDS), strict=True)
_PUBLISHED_SHAPES = (*PUBLISHED_SHAPES, *_PUBLISHED_PARTS, *PUBLISHED_EDGE_SHAPES, *_PUBLISHED_CONFIGS)


def native_schema() -> JsonObject:
    """The schema of native documents."""
    return _detached({"$schema": _DRAFT, "$id": NATIVE_SCHEMA_ID, **_object(DOCUMENT), "$defs": _native_definitions()})


def published_schema() -> JsonObject:
    """The schema of published documents: it accepts what the published schema accepts, and a signature block."""
    schema: JsonObject = {
        "$schema": _DRAFT,
        "$id": PUBLISHED_SCHEMA_ID,
        **_object(PUBLISHED_DOCUMENT),
        "$defs": _published_definitions(),
    }
    return _detached(schema)


def document_schema() -> JsonObject:
    """The schema for editors: native rules for a document with `penstock`, the published rules for any other."""
    schema: JsonObject = {
        "$schema": _DRAFT,
        "$id": DOCUMENT_SCHEMA_ID,
        "title": "Workflow",
        "description": "A Penstock workflow, or a workflow definition in the published format.",
        "type": "object",
        # No constraints here, so that an editor offers the marker in an empty file.
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
    return _detached(schema)


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


def _detached(schema: JsonObject) -> JsonObject:
    # A caller may change the result. The tables share their fragments, which must not change with it.
    return deepcopy(schema)


def _native_definitions() -> JsonObject:
    return {
        **FRAGMENTS,
        **{shape.name: _object(shape) for shape in (*_NATIVE_SHAPES, *_COMPENSATION_SHAPES)},
        **{shape.name: _node(shape) for shape in _NODE_SHAPES},
        **_node_list("", [kind.name for kind in NODE_KINDS.values()], ref("node_id")),
        "compensate": _compensate(),
    }


def _compensate() -> JsonObject:
    """An activity without an id. Without a `type`, the fields decide which activity it is."""
    activities = [kind.name for kind in ACTIVITY_KINDS]
    guessed: JsonObject = ref(f"compensate_{implied_activity({}).name}")
    for kind in reversed(ACTIVITY_KINDS):
        field_name = kind.activity.implied_by if kind.activity is not None else None
        if field_name is not None:
            guessed = {"if": {"required": [field_name]}, "then": ref(f"compensate_{kind.name}"), "else": guessed}
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
    names = [kind.name for kind in PUBLISHED_KINDS]
    return {
        **PUBLISHED_FRAGMENTS,
        **{shape.name: _object(shape) for shape in (*_PUBLISHED_SHAPES, *_PUBLISHED_NODE_SHAPES)},
        **_node_list("published_", names, {"type": "string", "minLength": 1}),
    }


def _node_list(prefix: str, type_names: list[str], node_id: JsonObject) -> JsonObject:
    """A list of nodes, each checked against the rules of its own type only, so that an editor reports no others."""
    node: JsonObject = {
        "title": "Node",
        "description": "One thing that the workflow does; `type` decides which fields it has.",
        "type": "object",
        # The rules of each type require the id.
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
    """A native node. Its fields may also be inside `config`; in that case only the checks can say what is missing."""
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
            "description": "The fields of the node, if they are not beside `id` and `type`.",
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
    """Which members are required: the plain list, and the rules between members."""
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

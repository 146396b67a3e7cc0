"""The vocabulary of the field tables, and the pieces that several objects of a document share.

A `Shape` is the table of one object: its fields, each with a JSON Schema fragment and a line that says what it is for,
and the rules between them. The tables are here, in `document`, `exposure` and `published`, and in the modules of
`nodes`. `editor_schema` turns them into JSON Schemas for editors and checks, and the documentation is generated from
the same lines. This module does not check documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.base.json import JsonObject

__all__ = [
    "ANYTHING",
    "APPROVERS",
    "BOOLEAN",
    "CASE",
    "CHECKPOINTING",
    "CHECKPOINT_STRATEGIES",
    "COUNT",
    "EDGE",
    "ERROR_ROUTE",
    "ESCALATION",
    "ESCALATION_TARGET",
    "FRAGMENTS",
    "NEXT",
    "OBJECT",
    "REDUCERS",
    "RESERVED_IDS",
    "RETRY",
    "RETRY_FIELD",
    "SHARED_SHAPES",
    "SIGNATURE",
    "STRING",
    "STRINGS",
    "TEXT",
    "Condition",
    "Field",
    "Shape",
    "array_of",
    "choice",
    "map_of",
    "optional",
    "pattern",
    "ref",
    "required",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One member of an object: which values it takes, what it is for, and whether it is required."""

    name: str
    schema: JsonObject
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """If `field` has the value `equals`, one of `then_any` must be present too."""

    field: str
    equals: str
    then_any: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An object of a document: its fields, and the rules between them.

    `hints` maps names that people are likely to write here by mistake to advice on what to write instead.
    """

    name: str
    title: str
    description: str
    fields: tuple[Field, ...]
    accepts_more: bool = False
    exactly_one: tuple[tuple[str, ...], ...] = ()
    at_least_one: tuple[tuple[str, ...], ...] = ()
    at_most_one: tuple[tuple[str, str], ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    conditions: tuple[Condition, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)


def required(name: str, schema: JsonObject, description: str) -> Field:
    """A field that must be present."""
    return Field(name=name, schema=schema, description=description, required=True)


def optional(name: str, schema: JsonObject, description: str) -> Field:
    """A field that may be left out."""
    return Field(name=name, schema=schema, description=description)


def ref(name: str) -> JsonObject:
    """A reference to a named piece of the same schema."""
    return {"$ref": f"#/$defs/{name}"}


def choice(*values: str) -> JsonObject:
    """One of a fixed set of words."""
    return {"type": "string", "enum": list(values)}


def pattern(expression: str, *examples: str) -> JsonObject:
    """A string that matches a pattern, which must be anchored at both ends."""
    return {"type": "string", "pattern": expression, "examples": list(examples)}


def array_of(items: JsonObject, *, items_min: int = 0) -> JsonObject:
    """A list whose items are all of one kind."""
    schema: JsonObject = {"type": "array", "items": items}
    return {**schema, "minItems": items_min} if items_min else schema


def map_of(values: JsonObject, *, properties_min: int = 0) -> JsonObject:
    """An object with any keys, whose values are all of one kind."""
    schema: JsonObject = {"type": "object", "additionalProperties": values}
    return {**schema, "minProperties": properties_min} if properties_min else schema


ANYTHING: JsonObject = {}
BOOLEAN: JsonObject = {"type": "boolean"}
COUNT: JsonObject = {"type": "integer", "minimum": 1}
OBJECT: JsonObject = {"type": "object"}
TEXT: JsonObject = {"type": "string"}
STRING: JsonObject = {"type": "string", "minLength": 1}
STRINGS: JsonObject = array_of(STRING)

# Names at the jq root and in template references; a node with one of these names would be ambiguous.
RESERVED_IDS = ("input", "run", "state", "item", "index", "loop", "error", "secret", "secrets", "env")
REDUCERS = ("overwrite", "append", "merge")
CHECKPOINT_STRATEGIES = ("after_each_node", "every_n_nodes", "interval", "disabled", "off", "none")

# Compound, fractional and ISO 8601 durations; `durations` decides about order and range.
_AMOUNT = r"[0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d|w)"
_DURATION_PATTERN = rf"^\s*([0-9]+|P[0-9.WDTHMS]+|{_AMOUNT}(\s*{_AMOUNT})*)\s*$"

_JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_SCHEMA_OR_FLAG: JsonObject = {"type": ["object", "boolean"], "$ref": "#/$defs/schema_keywords"}
_SCHEMAS: JsonObject = {"type": "array", "minItems": 1, "items": _SCHEMA_OR_FLAG}
# Only what helps while typing. Weaker than any draft, because compiling the schema is the real check.
_SCHEMA_KEYWORDS: JsonObject = {
    "title": {**TEXT, "description": "A short name, shown as a label."},
    "description": {**TEXT, "description": "What the value means; people and models read it."},
    "type": {"description": "The JSON type, or a list of types.", "anyOf": [choice(*_JSON_TYPES), {"type": "array"}]},
    "properties": {**map_of(_SCHEMA_OR_FLAG), "description": "The members of an object."},
    "required": {"type": ["array", "boolean"], "items": TEXT, "description": "The members that must be there."},
    "additionalProperties": {**_SCHEMA_OR_FLAG, "description": "Whether, and which, other members are allowed."},
    "items": {
        "type": ["object", "boolean", "array"],
        "$ref": "#/$defs/schema_keywords",
        "description": "The items of an array.",
    },
    "enum": {"type": "array", "description": "The values that are allowed."},
    "const": {"description": "The one value that is allowed."},
    "default": {"description": "The value when none is given."},
    "examples": {"type": "array", "description": "Values that a person would recognise."},
    "format": {**TEXT, "description": "The kind of string.", "examples": ["date-time", "date", "email", "uri", "uuid"]},
    "pattern": {**TEXT, "description": "A regular expression that the string must match."},
    "minLength": {"type": "number", "minimum": 0, "description": "The fewest characters of a string."},
    "maxLength": {"type": "number", "minimum": 0, "description": "The most characters of a string."},
    "minimum": {"type": "number", "description": "The least number allowed."},
    "maximum": {"type": "number", "description": "The greatest number allowed."},
    "exclusiveMinimum": {"type": ["number", "boolean"], "description": "The number must be greater than this."},
    "exclusiveMaximum": {"type": ["number", "boolean"], "description": "The number must be less than this."},
    "minItems": {"type": "number", "minimum": 0, "description": "The fewest items of an array."},
    "maxItems": {"type": "number", "minimum": 0, "description": "The most items of an array."},
    "anyOf": {**_SCHEMAS, "description": "The value matches at least one of these."},
    "oneOf": {**_SCHEMAS, "description": "The value matches exactly one of these."},
    "allOf": {**_SCHEMAS, "description": "The value matches all of these."},
}

# The named pieces of native documents that are not objects with fields of their own.
FRAGMENTS: Mapping[str, JsonObject] = {
    "duration": {
        "title": "Duration",
        "description": "A length of time: 500ms, 30s, 5m, 24h, 1d, 1h30m, 1.5s, PT5M, or a number of milliseconds.",
        "type": ["string", "integer"],
        "pattern": _DURATION_PATTERN,
        "minimum": 0,
        "examples": ["30s", "5m", "24h", "1d"],
    },
    "moment": {
        "title": "Moment",
        "description": "An ISO timestamp, or a template that gives one; UTC if it names no offset.",
        "type": ["string", "object"],
        "minLength": 1,
        "examples": ["2030-01-31T09:00:00Z"],
    },
    "jq": {
        **STRING,
        "title": "jq expression",
        "description": "A jq expression on the run's data: .input, .run, .state, and one key per finished node.",
        "examples": [".input.amount > 100"],
    },
    "template": {
        "title": "Template",
        "description": 'Any value; "${ jq }" inside strings, or {"jq": …} as a whole value, is replaced by its result.',
    },
    "template_object": {
        "title": "Template of an object",
        "description": 'An object with "${ jq }" in its strings, or one "${ jq }" that gives an object.',
        "anyOf": [{"type": "object"}, {"type": "string", "pattern": r"^\s*\$\{[\s\S]*\}\s*$"}],
    },
    "target": {
        **STRING,
        "title": "Target",
        "description": "The id of a node of the same body, or $exit to leave the body.",
        "examples": ["$exit"],
    },
    "node_id": {
        **pattern("^[A-Za-z_][A-Za-z0-9_]{0,63}$", "order", "ask"),
        "title": "Node id",
        "description": "A name for the node; later expressions read its output under this name.",
        "not": {"enum": list(RESERVED_IDS)},
    },
    "item_name": {
        **pattern("^[A-Za-z_][A-Za-z0-9_]{0,63}$", "order", "line"),
        "title": "Item name",
        "description": "The name of the current item in expressions.",
        "default": "item",
        "not": {"enum": [name for name in RESERVED_IDS if name != "item"]},
    },
    "reducer": {
        **choice(*REDUCERS),
        "title": "Reducer",
        "description": "How a new value joins the old one: overwrite it, append to a list, or merge objects.",
        "default": "overwrite",
    },
    "schema_keywords": {"properties": _SCHEMA_KEYWORDS},
    "json_schema": {
        "title": "JSON Schema",
        "description": "A JSON Schema (draft 2020-12 unless `$schema` says otherwise).",
        "type": "object",
        "$ref": "#/$defs/schema_keywords",
    },
    "state_schema": {
        "title": "State schema",
        "description": "A JSON Schema of the run's state; each property may name its reducer.",
        "type": "object",
        "$ref": "#/$defs/schema_keywords",
        "properties": {
            "properties": {
                "type": "object",
                "additionalProperties": {"type": ["object", "boolean"], "properties": {"reducer": ref("reducer")}},
            }
        },
    },
    "error_routes": {
        "title": "Error routes",
        "description": "What to do when the node fails: the first route whose codes match is taken.",
        "anyOf": [ref("error_route"), array_of(ref("error_route"))],
    },
    "next": {
        "title": "Next",
        "description": "The next node, if it is not the next in the list.",
        "anyOf": [ref("target"), ref("next_when")],
    },
    "checkpoint_strategy": {
        **choice(*CHECKPOINT_STRATEGIES),
        "title": "Checkpoint strategy",
        "description": "When the run's state is stored in full.",
        "default": "after_each_node",
    },
}

RETRY = Shape(
    name="retry",
    title="Retry policy",
    description="How often, and how fast, to retry a failed activity.",
    fields=(
        required("max_attempts", {**COUNT, "examples": [3, 5]}, "The number of attempts in all; 1 means no retry."),
        optional("initial_interval", ref("duration"), "The delay before the second attempt."),
        optional(
            "backoff_coefficient",
            {"type": "number", "exclusiveMinimum": 0, "default": 1, "examples": [2]},
            "The factor by which the delay grows.",
        ),
        optional("max_interval", ref("duration"), "The longest delay between two attempts."),
        optional("max_elapsed", ref("duration"), "No new attempt begins after this time since the first."),
        optional("jitter", {**BOOLEAN, "default": False}, "Vary the delays, so that many runs do not retry at once."),
        optional("non_retryable_errors", STRINGS, "Error codes that are not retried."),
    ),
)

RETRY_FIELD = optional("retry", ref("retry"), "How often, and how fast, to retry a failure.")

ERROR_ROUTE = Shape(
    name="error_route",
    title="Error route",
    description="Where a failure leads, or the value that replaces the node's output.",
    fields=(
        optional("code", STRING, "The error code this route is for; without code and codes it is for any error."),
        optional("codes", array_of(STRING, items_min=1), "The error codes this route is for."),
        optional("next", ref("target"), "The next node; it can read .error."),
        optional("fallback", ref("template"), "The output of the node instead of the failure."),
    ),
    exactly_one=(("next", "fallback"),),
    at_most_one=(("code", "codes"),),
    hints={"target": "write `next`", "goto": "write `next`", "when": "routes are chosen by `code` or `codes`"},
)

NEXT = Shape(
    name="next_when",
    title="Conditional successor",
    description="Chooses the successor by a condition.",
    fields=(
        required("when", ref("jq"), "The condition; anything but false and null is true."),
        required("then", ref("target"), "The successor when the condition is true."),
        optional("else", ref("target"), "The successor otherwise; if left out, the node listed next."),
    ),
    hints={"if": "write `when`", "next": "write `then`", "default": "write `else`"},
)

CASE = Shape(
    name="case",
    title="Case",
    description="One way out of a switch; the first case that is true is taken.",
    fields=(
        required("when", ref("jq"), "The condition; anything but false and null is true."),
        optional("next", ref("target"), "The node that follows when the condition is true."),
        optional("target", ref("target"), "The same as `next`."),
    ),
    exactly_one=(("next", "target"),),
    hints={"then": "write `next`", "if": "write `when`"},
)

EDGE = Shape(
    name="edge",
    title="Edge",
    description="A connection from one node to the next.",
    fields=(
        required("source", STRING, "The node the edge leaves, or __start__."),
        required("target", STRING, "The node the edge leads to."),
    ),
    hints={"from": "write `source`", "to": "write `target`", "when": "conditions belong in a switch node"},
)

APPROVERS = Shape(
    name="approvers",
    title="Approvers",
    description="Who may answer.",
    fields=(
        optional("group", STRING, "A group whose members may answer: principals with the scope `approve:GROUP`."),
        optional("groups", array_of(STRING, items_min=1), "Several groups; members of any of them may answer."),
        optional(
            "users", array_of(STRING, items_min=1), "Principals or subjects who may answer, such as `key:k7qm2xw4htnb`."
        ),
        optional(
            "not_requester",
            {**BOOLEAN, "default": False},
            "Excludes the person who started the run, made its key, or is acted for, with all of their keys.",
        ),
        optional(
            "services",
            {**BOOLEAN, "default": False},
            "Principals of kind `service` may answer, too; by default, only people.",
        ),
        optional("count", {**COUNT, "default": 1}, "How many people must approve; one decline ends it."),
        optional("escalate", ref("escalation"), "Who else may answer if there is no decision in time."),
    ),
    at_most_one=(("group", "groups"),),
    hints={"user": "write `users`, a list", "quorum": "write `count`", "escalation": "write `escalate`"},
)

ESCALATION = Shape(
    name="escalation",
    title="Escalation",
    description="Who else may answer an approval if there is no decision in time.",
    fields=(
        required("after", ref("duration"), "How long the first approvers have before others may answer."),
        required("to", ref("escalation_target"), "Who may answer then."),
        optional("instead", {**BOOLEAN, "default": False}, "The first approvers may no longer answer from then on."),
    ),
    hints={"groups": "write `to: {groups: […]}`", "group": "write `to: {group: …}`", "timeout": "write `after`"},
)

ESCALATION_TARGET = Shape(
    name="escalation_target",
    title="Who is asked next",
    description="Who may answer once an approval has been escalated.",
    fields=(
        optional("group", STRING, "A group whose members may answer."),
        optional("groups", array_of(STRING, items_min=1), "Several groups; members of any of them may answer."),
        optional("users", array_of(STRING, items_min=1), "Principals who may answer, by id."),
    ),
    at_most_one=(("group", "groups"),),
    at_least_one=(("group", "groups", "users"),),
    hints={"user": "write `users`, a list", "count": "the number of approvals stays the same"},
)

CHECKPOINTING = Shape(
    name="checkpointing",
    title="Checkpointing",
    description="When the run's state is stored in full.",
    fields=(
        optional("strategy", ref("checkpoint_strategy"), "after_each_node (default), every_n_nodes or disabled."),
        optional("policy", ref("checkpoint_strategy"), "The same as `strategy`."),
        optional("n", COUNT, "The number of nodes between two checkpoints, for every_n_nodes."),
        optional("interval", COUNT, "The same as `n`."),
    ),
    accepts_more=True,
)

SIGNATURE = Shape(
    name="signature",
    title="Signature",
    description="An EdDSA signature of the document without this block.",
    fields=(
        optional("alg", {**TEXT, "examples": ["EdDSA"]}, "The algorithm; only EdDSA is verified."),
        optional("value", TEXT, "The signature as a compact JWS."),
        optional("keyId", TEXT, "The id of the key that signed."),
    ),
    accepts_more=True,
)

SHARED_SHAPES = (
    RETRY,
    ERROR_ROUTE,
    NEXT,
    CASE,
    EDGE,
    APPROVERS,
    ESCALATION,
    ESCALATION_TARGET,
    CHECKPOINTING,
    SIGNATURE,
)

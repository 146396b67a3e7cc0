"""The pages about documents and nodes, made from the tables behind the editor schema and the checks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from docs.generator.markdown import anchor, code, link, page, prose, table
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.editor_schema import NODE_PART_SHAPES, node_shape
from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.kind import NodeKind
from penstock.definitions.nodes import NODE_KINDS
from penstock.definitions.shapes.document import DOCUMENT, DOCUMENT_SHAPES
from penstock.definitions.shapes.fields import FRAGMENTS, RESERVED_IDS, SHARED_SHAPES, Condition, Field, Shape

__all__ = ["document_page", "nodes_page"]

NODES_PAGE = "nodes.md"
DOCUMENT_PAGE = "document.md"

_NODE_TYPE: JsonObject = {"anyOf": [{"type": "one of the types above"}]}
_WORDS = {"array": "list", "integer": "whole number", "string": "text", "null": "null"}
# Parts of the schema that have no table of their own.
_SPECIAL = {
    "nodes": ("list of nodes", "Fields of every node"),
    "compensate": ("activity without an id", "Fields of every activity"),
}


def nodes_page() -> str:
    """Every node type with its fields, and the objects inside of nodes."""
    return page("Node types", "the tables in `definitions/nodes` and `definitions/shapes/fields.py`", _nodes_parts())


def document_page() -> str:
    """The top level of a native document."""
    source = "the tables in `definitions/shapes/document.py` and `definitions/shapes/fields.py`"
    return page("The native document", source, _document_parts())


def _nodes_parts() -> Iterator[str]:
    names = ", ".join(link(code(item.name), f"#{anchor(item.name)}") for item in NODE_KINDS.values())
    yield (
        "A node is one place in a workflow. Its `type` decides which fields it has; the fields stand beside `id` and "
        "`type`, or inside a `config` block. The guide "
        f"{link('Write a workflow', '../guides/writing-workflows.md')} shows them at work.\n\n"
        f"The types: {names}."
    )
    yield "## Fields of every node"
    yield (
        "`next` is missing where a node has no successor of its own (`end`, `fail`) or names its successors itself "
        "(`switch`). These ids are taken by the jq root and cannot be given to nodes: "
        + ", ".join(map(code, RESERVED_IDS))
        + "."
    )
    shared = [
        replace(field, schema=_NODE_TYPE) if field.name == "type" else field
        for field in _shared_fields(NODE_KINDS[NodeType.SET_STATE])
    ]
    yield _field_table(shared, NODES_PAGE)
    yield "## Fields of every activity"
    common = {field.name for field in _shared_fields(NODE_KINDS[NodeType.SET_STATE])}
    yield "An activity is work that somebody else does: `step`, `llm_call`, `tool_call`, `http` and `agent_delegate`."
    yield _field_table(
        [field for field in _shared_fields(NODE_KINDS[NodeType.STEP]) if field.name not in common], NODES_PAGE
    )
    for item in NODE_KINDS.values():
        yield f"## {item.name}"
        yield from _shape_parts(item.shape, NODES_PAGE)
        yield f"**Gives** {item.gives}."
    yield "## Objects inside of nodes"
    for shape in _inner_shapes():
        yield f"### {shape.title}"
        yield from _shape_parts(shape, NODES_PAGE)
    yield "## Kinds of values"
    yield table(["Kind", "What it is"], _fragment_rows())


def _document_parts() -> Iterator[str]:
    yield (
        "A document that begins with `penstock: v1` is in the native format. It is written in YAML or JSON; both mean "
        f"the same and have the same hash. What stands in `nodes` is on the page {link('Node types', NODES_PAGE)}."
    )
    yield from _shape_parts(DOCUMENT, DOCUMENT_PAGE)
    for shape in _top_shapes():
        yield f"## {shape.title}"
        yield from _shape_parts(shape, DOCUMENT_PAGE)


def _top_shapes() -> list[Shape]:
    shared = [shape for shape in SHARED_SHAPES if shape.name in ("checkpointing", "signature", "edge")]
    return [*DOCUMENT_SHAPES, *shared]


def _inner_shapes() -> list[Shape]:
    elsewhere = {shape.name for shape in _top_shapes()}
    return [*NODE_PART_SHAPES, *(shape for shape in SHARED_SHAPES if shape.name not in elsewhere)]


def _shared_fields(kind: NodeKind) -> list[Field]:
    """The fields that a node of a type has in common with others."""
    own = {field.name for field in kind.shape.fields}
    return [field for field in node_shape(kind).fields if field.name not in own]


def _shape_parts(shape: Shape, here: str) -> Iterator[str]:
    yield prose(shape.description)
    if shape.fields:
        yield _field_table(shape.fields, here)
    rules = [*_rules(shape)]
    if rules:
        yield "\n".join(f"- {rule}" for rule in rules)


def _field_table(fields: Iterable[Field], here: str) -> str:
    rows = [
        [code(field.name) + (" *" if field.required else ""), _kind(field.schema, here), prose(field.description)]
        for field in fields
    ]
    return table(["Field (* = required)", "Kind", "What it is for"], rows)


def _rules(shape: Shape) -> Iterator[str]:
    for names in shape.exactly_one:
        yield f"exactly one of {_listed(names)}"
    for names in shape.at_least_one:
        yield f"at least one of {_listed(names)}"
    for names in shape.at_most_one:
        yield f"at most one of {_listed(names)}"
    for name, others in shape.needs:
        yield f"{code(name)} needs {_listed(others)}"
    yield from map(_condition, shape.conditions)
    if shape.accepts_more:
        yield "other fields are accepted and handed on"


def _condition(condition: Condition) -> str:
    return f"{code(condition.field)}: {code(condition.equals)} needs {_listed(condition.then_any)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def _kind(schema: JsonObject, here: str) -> str:
    kind = _plain_kind(schema, here)
    default = schema.get("default")
    return kind if default is None else f"{kind}; {code(_written(default))} if left out"


def _written(value: JsonValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain_kind(schema: JsonObject, here: str) -> str:
    reference = schema.get("$ref")
    if isinstance(reference, str) and "type" not in schema:
        return _reference(reference.removeprefix("#/$defs/"), here)
    if "const" in schema:
        return code(_written(schema["const"]))
    choices = schema.get("enum")
    if isinstance(choices, list):
        return ", ".join(code(choice) for choice in choices)
    options = schema.get("anyOf")
    if isinstance(options, list):
        return " or ".join(_plain_kind(option, here) for option in options if isinstance(option, dict))
    return _typed(schema, here)


def _typed(schema: JsonObject, here: str) -> str:
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(_WORDS.get(str(word), str(word)) for word in named)
    items, values = schema.get("items"), schema.get("additionalProperties")
    if named == "array" and isinstance(items, dict):
        return f"list of {_plain_kind(items, here)}"
    if named == "object" and isinstance(values, dict):
        return f"object of {_plain_kind(values, here)}"
    return _WORDS.get(str(named), str(named)) if named else "anything"


def _reference(name: str, here: str) -> str:
    if name in _SPECIAL:
        text, heading = _SPECIAL[name]
        return link(text, f"{'' if here == NODES_PAGE else NODES_PAGE}#{anchor(heading)}")
    for target, shapes in ((NODES_PAGE, _inner_shapes()), (DOCUMENT_PAGE, _top_shapes())):
        for shape in shapes:
            if shape.name == name:
                return link(shape.title.lower(), f"{'' if target == here else target}#{anchor(shape.title)}")
    options = FRAGMENTS[name].get("anyOf")
    if isinstance(options, list) and all(isinstance(option, dict) and "type" not in option for option in options[:1]):
        return _plain_kind(FRAGMENTS[name], here)
    title = str(FRAGMENTS[name]["title"])
    target = "" if here == NODES_PAGE else NODES_PAGE
    return link(title if title.startswith(("JSON", "jq")) else title.lower(), f"{target}#kinds-of-values")


def _fragment_rows() -> Iterator[list[str]]:
    for fragment in FRAGMENTS.values():
        if "title" not in fragment:
            continue
        choices = fragment.get("enum")
        told = str(fragment["description"])
        if isinstance(choices, list):
            told += " One of " + ", ".join(map(code, choices)) + "."
        yield [str(fragment["title"]), told]

"""`for_each`: runs its nodes once per item of a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.templates import QueryTemplate
from penstock.definitions.model import ForEachDetail, ItemErrorPolicy, NodeType
from penstock.definitions.node_parts.captions import text_or_empty
from penstock.definitions.node_parts.changes import COMPUTED_AGAIN, STARTED, Comparison
from penstock.definitions.node_parts.compiling import expression_of, template_of
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace, Purpose, field_place
from penstock.definitions.node_parts.kind import Bodies, BodySource, Category, NodeKind, NodeSource
from penstock.definitions.node_parts.outline import OutlineNode
from penstock.definitions.shapes.fields import COUNT, Shape, choice, optional, ref, required

__all__ = ["KIND"]

_ITEMS: JsonObject = {"type": ["string", "array", "object"], "minLength": 1, "examples": [".input.orders"]}
_DEFAULT_NAME = "item"


def _is_expression(items: JsonValue) -> bool:
    """Whether the list is a jq expression; a string that contains `${` is a template."""
    return isinstance(items, str) and "${" not in items


def _build(source: NodeSource) -> ForEachDetail:
    fields, node = source.fields, source.node
    items, path = fields.get("items"), node.field_path("items")
    concurrency = fields.get("concurrency")
    result = template_of(fields["result"], node.field_path("result")) if "result" in fields else None
    return ForEachDetail(
        items=QueryTemplate(expression_of(items, path)) if _is_expression(items) else template_of(items, path),
        item_name=str(fields.get("as", _DEFAULT_NAME)),
        concurrency=concurrency if isinstance(concurrency, int) else 1,
        on_item_error=ItemErrorPolicy(str(fields.get("on_item_error", "fail"))),
        result=result,
        body=node.bodies[0],
    )


def _bodies(node: OutlineNode) -> Iterator[BodySource]:
    yield BodySource(name="", path=f"{node.fields_path}/nodes", nodes=node.fields.get("nodes"))


def _items(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    form = JqForm.JQ if _is_expression(node.fields.get("items")) else JqForm.TEMPLATE
    yield from field_place(document, node, "items", form, purpose=Purpose.ARRAY)


def _result(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    """The result of an item is computed inside the body, where the outputs of its nodes are visible."""
    body = node.bodies[0] if node.bodies else node.body
    for place in field_place(document, node, "result", JqForm.TEMPLATE):
        yield replace(place, body=body)


def _output(fields: JsonObject) -> JsonValue:
    return {"type": "array"}


def _caption(fields: JsonObject) -> str:
    at_once = fields.get("concurrency")
    items = f"{text_or_empty(fields.get('as')) or _DEFAULT_NAME} in {text_or_empty(fields.get('items')) or '…'}"
    return f"{items}, {at_once} at a time" if isinstance(at_once, int) and at_once > 1 else items


KIND = NodeKind(
    type=NodeType.FOR_EACH,
    shape=Shape(
        name="for_each",
        title="for_each",
        description="Runs its nodes once per item of a list; the results keep the list's order.",
        fields=(
            required("items", _ITEMS, "The list: a jq expression, or a template that gives one."),
            optional("as", ref("item_name"), "The name of the current item in expressions."),
            optional("concurrency", {**COUNT, "default": 1}, "How many items run at the same time."),
            optional(
                "on_item_error",
                {**choice("fail", "skip", "collect"), "default": "fail"},
                "What happens when an item fails: the node fails, the item is skipped, or the results contain an "
                "error.",
            ),
            optional("result", ref("template"), "The result of one item; by default, its last output."),
            required("nodes", ref("nodes"), "What is done for each item."),
        ),
        hints={"in": "write `items`", "list": "write `items`", "steps": "write `nodes`", "do": "write `nodes`"},
    ),
    other_words=("map", "each", "for", "iterate"),
    gives="a list with one result per item, in the order of the items",
    build=_build,
    category=Category.GROUP,
    caption=_caption,
    bodies=Bodies(read=_bodies, word="item", item_name=("as", _DEFAULT_NAME), names=("index",), once_each=False),
    jq=(_items, _result),
    output=_output,
    comparison=Comparison(
        defaults={"as": _DEFAULT_NAME, "concurrency": 1, "on_item_error": "fail"},
        expressions=frozenset({"items"}),
        effects={
            "items": COMPUTED_AGAIN,
            "as": COMPUTED_AGAIN,
            "concurrency": STARTED,
            "on_item_error": COMPUTED_AGAIN,
            "result": COMPUTED_AGAIN,
        },
    ),
)

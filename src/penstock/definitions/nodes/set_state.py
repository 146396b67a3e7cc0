"""`set_state`: writes to the run's state."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, json_pointer, object_or_empty
from penstock.definitions.model import NodeType, SetStateDetail
from penstock.definitions.node_parts.changes import COMPUTED_AGAIN, Comparison
from penstock.definitions.node_parts.compiling import template_of
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace, JqReader, Purpose, field_pointer
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, PublishedConfig
from penstock.definitions.node_parts.outline import OutlineNode
from penstock.definitions.shapes.fields import ANYTHING, STRING, Shape, map_of, optional, ref, required

__all__ = ["KIND"]


def _build(source: NodeSource) -> SetStateDetail:
    name = "set" if "set" in source.fields else "assignments"
    raw, path = source.fields.get(name), source.node.field_path(name)
    assignments = raw if isinstance(raw, dict) else {}
    return SetStateDetail(
        assignments=tuple((key, template_of(value, f"{path}/{key}")) for key, value in assignments.items())
    )


def _members(name: str) -> JqReader:
    """A reader for every member of a field; each member is a separate template."""

    def read(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
        members = node.fields.get(name)
        if not isinstance(members, dict):
            return
        path = field_pointer(document, node, name)
        for key, value in members.items():
            yield JqPlace(
                name=name,
                form=JqForm.TEMPLATE,
                value=value,
                path=path + json_pointer((key,)),
                node=node,
                body=node.body,
                assigns=key,
                purpose=Purpose.STATE,
            )

    return read


def _caption(fields: JsonObject) -> str:
    return ", ".join(object_or_empty(fields.get("set")) or object_or_empty(fields.get("assignments")))


_ASSIGNMENT = Shape(
    name="assignment",
    title="Assignment",
    description="A new value, computed or literal.",
    fields=(
        optional("jq", ref("jq"), "The value, as a jq expression."),
        optional("literal", ANYTHING, "The value, as it is."),
    ),
    exactly_one=(("jq", "literal"),),
)
_PUBLISHED_ASSIGNMENT = Shape(
    name="published_assignment",
    title="Assignment",
    description="A new value, computed or literal.",
    fields=(
        optional("jq", STRING, "The value, as a jq expression on the state."),
        optional("literal", ANYTHING, "The value, as it is."),
    ),
    exactly_one=(("jq", "literal"),),
)

KIND = NodeKind(
    type=NodeType.SET_STATE,
    shape=Shape(
        name="set_state",
        title="set_state",
        description="Writes to the run's state; every expression sees the state as it was before.",
        fields=(
            optional("set", map_of(ref("template"), properties_min=1), "The keys to write, each with its value."),
            optional(
                "assignments", map_of(ref("assignment"), properties_min=1), "The same, each value as {jq} or {literal}."
            ),
        ),
        exactly_one=(("set", "assignments"),),
        hints={"values": "write `set`", "state": "write `set`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_set_state",
            title="config of set_state",
            description="Writes to the run's state.",
            fields=(
                required(
                    "assignments",
                    map_of(ref("published_assignment"), properties_min=1),
                    "The keys to write, each as {jq} or {literal}.",
                ),
            ),
        ),
        parts=(_PUBLISHED_ASSIGNMENT,),
    ),
    parts=(_ASSIGNMENT,),
    other_words=("set", "assign", "state", "variables"),
    gives="the values that were set, before they joined the state",
    build=_build,
    category=Category.DATA,
    caption=_caption,
    jq=(_members("set"), _members("assignments")),
    published_jq=(_members("assignments"),),
    comparison=Comparison(aliases={"assignments": "set"}, effects={"set": COMPUTED_AGAIN}),
)

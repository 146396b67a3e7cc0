"""`continue_as_new`: ends the run and starts the next one of the same workflow, with an empty history."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import ContinueDetail, NodeType
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.compiling import template_of
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace, Purpose, field_place
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, RunEnd
from penstock.definitions.node_parts.outline import OutlineNode
from penstock.definitions.shapes.fields import Shape, choice, optional, ref, required

__all__ = ["KIND"]


def _is_newest(fields: JsonObject) -> bool:
    return fields.get("version") == "newest"


def _build(source: NodeSource) -> ContinueDetail:
    return ContinueDetail(
        input=template_of(source.fields.get("input"), source.node.field_path("input")),
        newest=_is_newest(source.fields),
    )


def _input(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    # The input schema of the newest definition is not known here.
    purpose = None if _is_newest(node.fields) else Purpose.NEXT_INPUT
    yield from field_place(document, node, "input", JqForm.TEMPLATE, purpose=purpose)


def _caption(fields: JsonObject) -> str:
    return "newest version" if _is_newest(fields) else ""


KIND = NodeKind(
    type=NodeType.CONTINUE_AS_NEW,
    shape=Shape(
        name="continue_as_new",
        title="continue_as_new",
        description="Ends the run and starts the next one of the same workflow, with an empty history.",
        fields=(
            required("input", ref("template"), "The next run's input; what it must remember has to be in it."),
            optional("version", {**choice("pinned", "newest"), "default": "pinned"}, "The definition of the next run."),
        ),
        hints={"next": "a continue_as_new node has no successor", "with": "write `input`", "state": "write `input`"},
    ),
    other_words=("continue", "restart", "again"),
    gives="nothing that later nodes could read: the run is over, and the next one gets `input`",
    build=_build,
    category=Category.TERMINAL,
    caption=_caption,
    has_successor=False,
    run_end=RunEnd(code="CONTINUE_IN_BODY", does="end the run and start the next one", restarts=True),
    jq=(_input,),
    comparison=Comparison(defaults={"version": "pinned"}),
)

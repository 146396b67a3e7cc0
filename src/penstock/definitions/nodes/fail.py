"""`fail`: ends the run, or the branch, with an error of the author's own."""

from __future__ import annotations

from penstock.definitions.model import FailDetail, NodeType
from penstock.definitions.node_parts.captions import first_text
from penstock.definitions.node_parts.changes import Comparison, unsafe
from penstock.definitions.node_parts.compiling import template_of
from penstock.definitions.node_parts.jq_places import template
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource
from penstock.definitions.shapes.fields import Shape, optional, pattern, ref, required

__all__ = ["KIND"]


def _build(source: NodeSource) -> FailDetail:
    message = template_of(source.fields.get("message", ""), source.node.field_path("message"))
    return FailDetail(code=str(source.fields.get("code", "FAILED")), message=message)


KIND = NodeKind(
    type=NodeType.FAIL,
    shape=Shape(
        name="fail",
        title="fail",
        description="Ends the run, or the branch, with an error of your own.",
        fields=(
            required("code", pattern("^[A-Z][A-Z0-9_]*$", "ORDER_NOT_FOUND"), "The error's code."),
            optional("message", ref("template"), "What went wrong, for people."),
        ),
        hints={"next": "a fail node has no successor", "reason": "write `message`", "error": "write `code`"},
    ),
    other_words=("error", "throw", "raise", "abort"),
    gives="nothing: the run, or the branch, failed",
    build=_build,
    category=Category.FAILURE,
    caption=first_text("code"),
    has_successor=False,
    jq=(template("message"),),
    comparison=Comparison(effects={"code": unsafe("a route may have been chosen by the old code")}),
)

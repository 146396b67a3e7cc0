"""`switch`: takes the first case that is true."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import Case, NodeType, SwitchDetail
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.compiling import expression_of
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace, field_pointer
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, PublishedConfig
from penstock.definitions.node_parts.outline import OutlineNode, Route, route_to
from penstock.definitions.shapes.fields import STRING, Shape, array_of, optional, ref, required

__all__ = ["KIND"]


def _routes(fields: JsonObject, path: str) -> Iterator[Route]:
    cases = fields.get("cases")
    for index, case in enumerate(cases if isinstance(cases, list) else []):
        if not isinstance(case, dict):
            continue
        key = "target" if "target" in case else "next"
        target, when = case.get(key), case.get("when")
        if isinstance(target, str):
            yield route_to("case", target, f"{path}/cases/{index}/{key}", str(when or ""))
    default = fields.get("default")
    if isinstance(default, str):
        yield route_to("default", default, f"{path}/default", "otherwise")


def _build(source: NodeSource) -> SwitchDetail:
    node, raw = source.node, source.fields.get("cases")
    cases = [case for case in raw if isinstance(case, dict)] if isinstance(raw, list) else []
    targets = [route.target for route in node.routes if route.kind == "case"]
    default = [route.target for route in node.routes if route.kind == "default"]
    return SwitchDetail(
        cases=tuple(
            Case(when=expression_of(case.get("when"), f"{node.fields_path}/cases/{index}/when"), target=target)
            for index, (case, target) in enumerate(zip(cases, targets, strict=True))
        ),
        default=default[0] if default else None,
        has_default=bool(default),
    )


def _jq(document: JsonObject, node: OutlineNode) -> Iterator[JqPlace]:
    cases, path = node.fields.get("cases"), field_pointer(document, node, "cases")
    for index, case in enumerate(cases if isinstance(cases, list) else []):
        when = case.get("when") if isinstance(case, dict) else None
        if isinstance(when, str):
            place = f"{path}/{index}/when"
            yield JqPlace(name="when", form=JqForm.JQ, value=when, path=place, node=node, body=node.body)


_PUBLISHED_CASE = Shape(
    name="published_case",
    title="Case",
    description="One way out of a switch; the first case that is true is taken.",
    fields=(
        required("when", STRING, "The condition, as a jq expression on the state."),
        required("target", STRING, "The node that follows when the condition is true."),
    ),
    hints={"next": "the published format writes `target`"},
)

KIND = NodeKind(
    type=NodeType.SWITCH,
    shape=Shape(
        name="switch",
        title="switch",
        description="Takes the first case that is true.",
        fields=(
            required("cases", array_of(ref("case"), items_min=1), "The ways out, tried in order."),
            optional("default", ref("target"), "The way out when no case is true; without it the run fails."),
        ),
        hints={"next": "a switch names its successors in `cases` and `default`", "else": "write `default`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_switch",
            title="config of switch",
            description="Takes the first case that is true.",
            fields=(
                required("cases", array_of(ref("published_case"), items_min=1), "The ways out, tried in order."),
                optional("default", STRING, "The way out when no case is true."),
            ),
        ),
        parts=(_PUBLISHED_CASE,),
    ),
    other_words=("if", "condition", "choice", "branch", "router", "decision"),
    gives="an empty object",
    build=_build,
    category=Category.DECISION,
    has_successor=False,
    routes=_routes,
    jq=(_jq,),
    published_jq=(_jq,),
    comparison=Comparison(elsewhere=frozenset({"default"})),
)

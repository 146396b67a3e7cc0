"""`start`: where a run begins."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.definitions.model import NodeType, StartDetail
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, PublishedConfig
from penstock.definitions.node_parts.outline import Outline, has_only_known_types
from penstock.definitions.shapes.fields import Shape, optional, ref
from penstock.definitions.source.findings import Finding

__all__ = ["KIND"]


def _build(source: NodeSource) -> StartDetail:
    return StartDetail()


def _check_all(outline: Outline) -> Iterator[Finding]:
    starts = [node for node in outline.nodes if node.type == NodeType.START]
    if not outline.native and not starts and has_only_known_types(outline):
        yield Finding(
            code="START_COUNT",
            message="there is no start node",
            path="/nodes",
            hint="add one node with `type: start`",
        )
    for extra in starts[1:]:
        yield Finding(
            code="START_COUNT",
            message=f"`{extra.id}` is a second start node; `{starts[0].id}` is the first",
            path=f"{extra.path}/type",
            hint="a workflow starts in one place",
        )
    if not outline.native or not starts:
        return
    root = [node for node in outline.nodes if node.body == ""]
    if starts[0].body != "" or (outline.listed_order and starts[0] is not root[0]):
        yield Finding(
            code="START_NOT_FIRST",
            message=f"the start node `{starts[0].id}` is not the first node",
            path=f"{starts[0].path}/type",
            hint="put it first, or leave it out: a run starts with the first node",
        )


KIND = NodeKind(
    type=NodeType.START,
    shape=Shape(
        name="start",
        title="start",
        description="Where a run begins; may be left out.",
        fields=(optional("input_schema", ref("json_schema"), "The JSON Schema of the run's input."),),
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_start",
            title="config of start",
            description="Where a run begins.",
            fields=(optional("input_schema", ref("published_json_schema"), "The JSON Schema of the run's input."),),
        ),
        required=False,
    ),
    gives="an empty object",
    build=_build,
    category=Category.TERMINAL,
    begins_run=True,
    check_all=_check_all,
    comparison=Comparison(elsewhere=frozenset({"input_schema"})),
)

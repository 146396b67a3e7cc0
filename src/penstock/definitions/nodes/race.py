"""`race`: runs branches side by side; the first that completes wins."""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.model import Join, NodeType, ParallelDetail
from penstock.definitions.node_parts.branches import BRANCHES, BRANCHES_FIELD, branch_count, build_branches
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource
from penstock.definitions.shapes.fields import Shape

__all__ = ["KIND"]


def _build(source: NodeSource) -> ParallelDetail:
    return build_branches(source, Join.ANY, None)


def _caption(fields: JsonObject) -> str:
    count = branch_count(fields)
    return "" if count is None else f"first of {count}"


KIND = NodeKind(
    type=NodeType.RACE,
    shape=Shape(
        name="race",
        title="race",
        description="Runs branches side by side; the first that completes wins, the others are cancelled.",
        fields=(BRANCHES_FIELD,),
        hints={"join": "a race is always won by the first branch; use `parallel` to join several"},
    ),
    gives="an object with `winner`, the name of the first branch, and `output`, that of its last node",
    build=_build,
    category=Category.GROUP,
    caption=_caption,
    bodies=BRANCHES,
)

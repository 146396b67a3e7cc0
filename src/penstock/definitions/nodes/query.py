"""`query`: runs a stored query of a graph, or works on its branches: creates one, compares two, merges."""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.activity import activity_builder, activity_jq
from penstock.definitions.node_parts.captions import text_or_empty
from penstock.definitions.node_parts.kind import Activity, Category, NodeKind, Pace
from penstock.definitions.shapes.fields import STRING, Shape, optional, ref, required

__all__ = ["KIND"]

_ACTIVITY = Activity(
    arguments=("params", "branch", "snapshot", "if_graph_commit", "create_branch", "diff", "merge"), implied_by="graph"
)
_DOES = ("query", "create_branch", "diff", "merge")


def _caption(fields: JsonObject) -> str:
    graph = text_or_empty(fields.get("graph"))
    if "query" in fields:
        return f"{graph}.{text_or_empty(fields['query'])}"
    return f"{graph} {next((name.replace('_', ' ') for name in _DOES if name in fields), '')}".strip()


KIND = NodeKind(
    type=NodeType.QUERY,
    shape=Shape(
        name="query",
        title="query",
        description="Runs a stored query of a graph, or creates, compares or merges its branches.",
        fields=(
            required("graph", STRING, "The graph, by its id."),
            optional("query", STRING, "The stored query, by its name: a read or a mutation."),
            optional("params", ref("template_object"), "The parameters of the query."),
            optional("branch", STRING, "The branch that is read or changed; by default, `main`."),
            optional("snapshot", STRING, "A commit: read the graph as it was then."),
            optional("if_graph_commit", STRING, "The commit that the branch must be at, for a mutation or a merge."),
            optional("create_branch", ref("template_object"), "Creates a branch: `name`, and `source` (`main`)."),
            optional("diff", ref("template_object"), "Compares branches: `source`, and `target` (`main`)."),
            optional(
                "merge",
                ref("template_object"),
                "Merges a branch: `source`, `target` (`main`), `if_source_commit`, `delete_branch`, `message`.",
            ),
        ),
        exactly_one=(_DOES,),
        needs=(("params", ("query",)), ("branch", ("query",)), ("snapshot", ("query",))),
        hints={
            "with": "write `params`",
            "arguments": "write `params`",
            "input": "write `params`",
            "name": "write `query`",
        },
    ),
    other_words=("graph", "gq", "cypher", "sql"),
    gives="the answer: `rows` of a read, `affected_nodes` and `commit` of a mutation, `changes` of a comparison",
    build=activity_builder(_ACTIVITY),
    category=Category.WORK,
    caption=_caption,
    pace=Pace.WAITS,
    activity=_ACTIVITY,
    jq=activity_jq(_ACTIVITY),
)

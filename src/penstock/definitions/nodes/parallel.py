"""`parallel`: runs branches side by side and joins them."""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.model import Join, NodeType, ParallelDetail
from penstock.definitions.node_parts.branches import BRANCH, BRANCHES, BRANCHES_FIELD, branch_count, build_branches
from penstock.definitions.node_parts.changes import STARTED, Comparison
from penstock.definitions.node_parts.kind import Category, NodeKind, NodeSource, PublishedConfig
from penstock.definitions.shapes.fields import (
    COUNT,
    STRING,
    Condition,
    Shape,
    array_of,
    choice,
    optional,
    ref,
    required,
)

__all__ = ["KIND"]

_JOINS = choice("all", "any", "n_of_m")
_N = optional("n", COUNT, "The number of branches for n_of_m.")
_N_OF_M = Condition(field="join", equals="n_of_m", then_any=("n",))


def _build(source: NodeSource) -> ParallelDetail:
    concurrency = source.fields.get("concurrency")
    if not source.native:
        concurrency = 1  # the published format runs branches one after the other, in listed order
    join = Join(str(source.fields.get("join", "all")))
    return build_branches(source, join, concurrency if isinstance(concurrency, int) else None)


def _caption(fields: JsonObject) -> str:
    count = branch_count(fields) or 0
    wanted = {"all": f"all of {count}", "any": f"first of {count}", "n_of_m": f"{fields.get('n')} of {count}"}
    return wanted.get(str(fields.get("join", "all")), "")


_PUBLISHED_BRANCH = Shape(
    name="published_branch",
    title="Branch",
    description="One of the paths between a parallel node and its join target.",
    fields=(
        required("name", STRING, "The branch's name."),
        required("entry", STRING, "The branch's first node."),
    ),
)

KIND = NodeKind(
    type=NodeType.PARALLEL,
    shape=Shape(
        name="parallel",
        title="parallel",
        description="Runs branches side by side and joins them.",
        fields=(
            BRANCHES_FIELD,
            optional("join", {**_JOINS, "default": "all"}, "How many branches must complete before the run continues."),
            _N,
            optional("concurrency", COUNT, "How many branches run at the same time; all of them if left out."),
        ),
        conditions=(_N_OF_M,),
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_parallel",
            title="config of parallel",
            description="Runs branches one after another and joins them.",
            fields=(
                required("join", _JOINS, "How many branches must complete."),
                _N,
                required("branches", array_of(ref("published_branch"), items_min=1), "The branches."),
                optional("timeout", ref("published_duration"), "The time limit of the branches."),
            ),
            conditions=(_N_OF_M,),
            hints={"concurrency": "branches run side by side in the native format, `penstock: v1`"},
        ),
        parts=(_PUBLISHED_BRANCH,),
    ),
    parts=(BRANCH,),
    other_words=("fork", "concurrent", "all"),
    gives="an object with one member per branch that completed: the output of its last node",
    build=_build,
    category=Category.GROUP,
    caption=_caption,
    bodies=BRANCHES,
    comparison=Comparison(defaults={"join": "all"}, effects={"join": STARTED, "n": STARTED, "concurrency": STARTED}),
)

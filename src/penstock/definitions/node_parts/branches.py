"""The common part of node types with branches: the branch as an object, its bodies, and the checks of both.

Above it: `nodes.parallel` and `nodes.race`.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import Join, ParallelDetail
from penstock.definitions.node_parts.kind import Bodies, BodySource, NodeSource
from penstock.definitions.node_parts.outline import OutlineNode
from penstock.definitions.shapes.fields import STRING, Shape, array_of, optional, ref, required
from penstock.definitions.source.findings import Finding, Severity

__all__ = ["BRANCH", "BRANCHES", "BRANCHES_FIELD", "branch_count", "build_branches"]

BRANCHES_FIELD = required("branches", array_of(ref("branch"), items_min=1), "The branches.")
BRANCH = Shape(
    name="branch",
    title="Branch",
    description="One of the paths that run side by side.",
    fields=(
        required("name", STRING, "The branch's name."),
        optional("nodes", ref("nodes"), "What the branch does."),
        optional("entry", STRING, "The branch's first node, if its nodes are outside."),
    ),
    exactly_one=(("nodes", "entry"),),
    hints={"id": "write `name`", "steps": "write `nodes`"},
)


def branch_count(fields: JsonObject) -> int | None:
    """The number of branches, or None when they cannot be counted."""
    branches = fields.get("branches")
    return len(branches) if isinstance(branches, list) else None


def build_branches(source: NodeSource, join: Join, concurrency: int | None) -> ParallelDetail:
    """Compile branches; without a concurrency all of them run at the same time."""
    count, wanted = len(source.node.bodies), source.fields.get("n")
    needed = {Join.ALL: count, Join.ANY: 1, Join.N_OF_M: wanted if isinstance(wanted, int) else count}[join]
    return ParallelDetail(
        join=join,
        needed=needed,
        bodies=source.node.bodies,
        concurrency=count if concurrency is None else concurrency,
    )


def _read(node: OutlineNode) -> Iterator[BodySource]:
    branches = node.fields.get("branches")
    for index, branch in enumerate(branches if isinstance(branches, list) else []):
        if not isinstance(branch, dict) or not isinstance(branch.get("name"), str):
            continue
        path, name = f"{node.fields_path}/branches/{index}", str(branch["name"])
        entry = branch.get("entry")
        if isinstance(entry, str):
            yield BodySource(name=name, path=f"{path}/entry", entry=entry)
        elif "nodes" in branch:
            yield BodySource(name=name, path=f"{path}/nodes", nodes=branch["nodes"])


def _check(node: OutlineNode) -> Iterator[Finding]:
    yield from _duplicate_branches(node)
    yield from _impossible_join(node)


def _duplicate_branches(node: OutlineNode) -> Iterator[Finding]:
    branches, seen = node.fields.get("branches"), set[str]()
    for index, branch in enumerate(branches if isinstance(branches, list) else []):
        name = branch.get("name") if isinstance(branch, dict) else None
        if not isinstance(name, str):
            continue
        if name in seen:
            yield Finding(
                code="DUPLICATE_BRANCH",
                message=f"`{node.id}` has two branches called `{name}`",
                path=f"{node.fields_path}/branches/{index}/name",
                hint="the results of branches are stored under their names",
            )
        seen.add(name)


def _impossible_join(node: OutlineNode) -> Iterator[Finding]:
    count, needed = branch_count(node.fields), node.fields.get("n")
    if not isinstance(needed, int) or isinstance(needed, bool) or not count:
        return
    if node.fields.get("join") != "n_of_m":
        yield Finding(
            code="HAS_NO_EFFECT",
            message="`n` has no effect without `join: n_of_m`",
            path=node.field_path("n"),
            hint="write `join: n_of_m`, or remove `n`",
            severity=Severity.WARNING,
        )
    elif needed > count:
        yield Finding(
            code="JOIN_IMPOSSIBLE",
            message=f"`{node.id}` waits for {needed} branches but has {count}",
            path=node.field_path("n"),
            hint=f"write a number from 1 to {count}",
        )


BRANCHES = Bodies(read=_read, check=_check)

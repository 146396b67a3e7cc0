"""Checks of bodies: branches that can never join, ends inside them, endless loops, nesting, fields without effect.

Above it: `graph`. Below it: `outline.reach`, which knows what a body can walk. Targets and ids are checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.limits import BODY_DEPTH_MAX
from penstock.definitions.editor_schema import node_shape
from penstock.definitions.node_parts.kind import RunEnd
from penstock.definitions.nodes import NODE_KINDS, kind_named
from penstock.definitions.outline.document import EXIT, Body, OutlineNode
from penstock.definitions.outline.reach import Graph, fails, strong_components
from penstock.definitions.source.findings import Finding, Severity

__all__ = ["body_findings"]

_RETRIED_TYPES = frozenset(
    kind.name for kind in NODE_KINDS.values() if any(member.name == "retry" for member in node_shape(kind).fields)
)


def body_findings(graph: Graph, reached: set[str]) -> list[Finding]:
    """Return everything that is wrong with branches, items and iterations, and with the fields of single nodes."""
    return [
        *_never_joining(graph),
        *_ends_in_bodies(graph),
        *_endless_cycles(graph, reached),
        *(finding for node in graph.outline.nodes for finding in _node_findings(graph, node)),
    ]


def _node_findings(graph: Graph, node: OutlineNode) -> Iterator[Finding]:
    kind = kind_named(node.type)
    if kind is not None and kind.bodies is not None:
        if kind.bodies.check is not None:
            yield from kind.bodies.check(node)
        yield from _too_deep(node)
    yield from _without_effect(graph, node)


def _never_joining(graph: Graph) -> Iterator[Finding]:
    for body in graph.outline.bodies.values():
        if body.owner is None or graph.can_finish(body):
            continue
        if not graph.outline.native and body.exit_target is None:
            continue  # the fork itself has no successor, which is reported there
        target = body.exit_target
        yield Finding(
            code="BRANCH_NEVER_JOINS",
            message=f"{_body_title(graph, body)} can never finish: no path through it "
            + ("leaves it" if target is None else f"reaches `{target}`, where the branches join"),
            path=body.path,
            hint=f"lead its last node to `{target}`" if target is not None else f"give one of its nodes `next: {EXIT}`",
        )


def _body_title(graph: Graph, body: Body) -> str:
    if body.name:
        return f"the branch `{body.name}` of `{body.owner}`"
    owner = graph.nodes.get(body.owner or "")
    kind = kind_named(owner.type) if owner is not None else None
    word = kind.bodies.word if kind is not None and kind.bodies is not None else "branch"
    return f"an {word} of `{body.owner}`" if word != "branch" else f"a branch of `{body.owner}`"


def _ends_in_bodies(graph: Graph) -> Iterator[Finding]:
    """Nodes that end the run from inside a body, while other nodes of the run may still be working."""
    for node in graph.outline.nodes:
        run_end = _run_end(node)
        if run_end is not None and node.body != "":
            body = graph.outline.bodies.get(node.body)
            owner = (body.owner if body is not None else None) or node.body
            yield Finding(
                code=run_end.code,
                message=f"`{node.id}` would {run_end.does} from inside `{owner}`",
                path=f"{node.path}/type",
                hint=f"finish the body with `next: {EXIT}`, and put the {node.type} node after `{owner}`",
            )
    for kind in NODE_KINDS.values():
        if kind.run_end is not None:
            ends = {node.id for node in graph.nodes.values() if node.type == kind.name}
            yield from _reached_ends(graph, ends, kind.run_end.code, kind.name)


def _run_end(node: OutlineNode) -> RunEnd | None:
    kind = kind_named(node.type)
    return None if kind is None else kind.run_end


def _reached_ends(graph: Graph, ends: set[str], code: str, word: str) -> Iterator[Finding]:
    """Branches written beside their fork that reach one of these nodes before they join."""
    for body in graph.outline.bodies.values() if ends else ():
        if body.nested or body.owner is None or not graph.can_finish(body):
            continue
        found = min(graph.region(body).members & ends, default=None)
        if found is not None:
            yield Finding(
                code=code,
                message=f"{_body_title(graph, body)} can reach the {word} node `{found}` without joining",
                path=body.path,
                hint=f"lead every path of the branch to `{body.exit_target}`"
                if body.exit_target is not None
                else f"finish the branch with `next: {EXIT}`",
            )


def _endless_cycles(graph: Graph, reached: set[str]) -> Iterator[Finding]:
    stuck: set[str] = set()
    for body in graph.outline.bodies.values():
        if body.owner is not None and not graph.can_finish(body):
            stuck |= graph.region(body).members
    steps = _steps_over_runs(graph)
    for members in strong_components(steps):
        if not members <= reached or members & stuck or not _is_cycle(steps, members):
            continue
        if all(_never_leaves(graph, name, members) for name in members):
            yield _endless_cycle(graph, members)


def _steps_over_runs(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The steps of the graph, including the step from a node that continues as a new run to the entry."""
    entry = graph.resolve(graph.outline.entry, "") if graph.outline.entry is not None else None
    restart = () if entry is None else (entry,)
    ends = {name: _run_end(node) for name, node in graph.nodes.items()}
    continued = {name: restart for name, run_end in ends.items() if run_end is not None and run_end.restarts}
    return {name: (*steps, *continued.get(name, ())) for name, steps in graph.steps.items()}


def _is_cycle(steps: dict[str, tuple[str, ...]], members: frozenset[str]) -> bool:
    return len(members) > 1 or any(name in steps.get(name, ()) for name in members)


def _never_leaves(graph: Graph, name: str, members: frozenset[str]) -> bool:
    """Whether a node of a cycle neither waits nor has a way out, not even by failing."""
    node = graph.nodes[name]
    if name in graph.leaving or name in graph.uncertain or graph.blocks(name):
        return False
    kind = kind_named(node.type)
    # A node that chooses its own successor fails when no case is true.
    if kind is not None and kind.routes is not None and not any(route.kind == "default" for route in node.routes):
        return False
    if any(fails(inner) for inner in graph.contents(name)):
        return False
    return all(step in members for step in graph.steps.get(name, ()))


def _endless_cycle(graph: Graph, members: frozenset[str]) -> Finding:
    ordered = [node for node in graph.nodes.values() if node.id in members]
    names = ", ".join(f"`{node.id}`" for node in ordered)
    return Finding(
        code="INFINITE_LOOP",
        message=f"{names} repeat forever: nothing in the cycle waits, and no route leads out of it"
        if len(ordered) > 1
        else f"{names} repeats forever: it does not wait, and no other route leads out",
        path=ordered[0].path,
        hint="add a `switch` with a case that leads out, or use a `loop` node with `max_iterations`",
        severity=Severity.ERROR if graph.outline.native else Severity.WARNING,
    )


def _too_deep(node: OutlineNode) -> Iterator[Finding]:
    # A path contains only field names and indices, so counting is exact.
    depth = node.path.split("/").count("nodes") - 1
    if depth == BODY_DEPTH_MAX:
        yield Finding(
            code="NESTING_TOO_DEEP",
            message=f"`{node.id}` is nested inside {BODY_DEPTH_MAX} other nodes and cannot have a body",
            path=node.path,
            hint="move the inner part into a workflow of its own and call it with `type: subworkflow`",
        )


def _without_effect(graph: Graph, node: OutlineNode) -> Iterator[Finding]:
    native, kind = graph.outline.native, kind_named(node.type)
    ignored = ["timeout"] if kind is not None and kind.is_instant else []
    # The native schema refuses `retry` where it has no effect; the published schema accepts it everywhere.
    if not native and node.type not in _RETRIED_TYPES:
        ignored.append("retry")
    for name in ignored:
        if name in node.fields:
            yield Finding(
                code="HAS_NO_EFFECT",
                message=f"`{name}` has no effect on a {node.type} node",
                path=node.field_path(name) if native else f"{node.path}/{name}",
                hint="remove it",
                severity=Severity.WARNING,
            )

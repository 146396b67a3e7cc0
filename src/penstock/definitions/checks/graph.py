"""Checks of the graph: ids, targets, reachability, dead ends.

Above it: `validate`. Beside it: `bodies` (branches, items and iterations) and `edges` (the published rules of edges).
Below it: `outline.reach` resolves the graph. It makes no assumptions: the outline of a broken document is checked as
far as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from penstock.definitions.checks.bodies import body_findings
from penstock.definitions.nodes import NODE_KINDS, kind_named
from penstock.definitions.outline.document import EXIT, Outline, OutlineNode, Route
from penstock.definitions.outline.reach import Graph
from penstock.definitions.source.findings import Finding, Severity

__all__ = ["graph_findings"]


def graph_findings(graph: Graph) -> tuple[Finding, ...]:
    """Return everything that is wrong with the graph of a document."""
    outline = graph.outline
    reached = graph.reached_from(_roots(graph))
    dead_ends = list(_dead_ends(graph, reached))
    bodies = body_findings(graph, reached)
    return (
        *_duplicate_ids(outline),
        *_unknown_targets(graph),
        *(finding for kind in NODE_KINDS.values() if kind.check_all for finding in kind.check_all(outline)),
        *_unreachable(graph, reached),
        *dead_ends,
        *bodies,
        *([] if dead_ends or bodies else _no_end(graph, reached)),
    )


def _roots(graph: Graph) -> list[str]:
    outline = graph.outline
    roots = [outline.entry, *(route.target for route in outline.error_routes)]
    if outline.native:
        # If `start` is in the wrong place, the nodes before it look unreachable; one finding is enough.
        roots.extend(islice(graph.names_in(""), 1))
    resolved = (graph.resolve(root, "") for root in roots if root is not None)
    return [root for root in resolved if root is not None]


def _duplicate_ids(outline: Outline) -> Iterator[Finding]:
    first: dict[str, OutlineNode] = {}
    for node in outline.nodes:
        known = first.setdefault(node.id, node)
        if known is not node:
            yield Finding(
                code="DUPLICATE_ID",
                message=f"the id `{node.id}` is taken: the node at {known.path} has it",
                path=f"{node.path}/id",
                hint="ids are unique in the whole document, inside bodies too",
            )


def _unknown_targets(graph: Graph) -> Iterator[Finding]:
    for node in graph.outline.nodes:
        for route in node.routes:
            yield from _check_target(graph, route, node.body)
    for route in graph.outline.error_routes:
        yield from _check_target(graph, route, "")
    for body in graph.outline.bodies.values():
        if body.nested or body.entry is None or body.owner is None:
            continue
        owner = graph.nodes.get(body.owner)
        entry = Route(kind="entry", target=body.entry, path=body.path)
        yield from _check_target(graph, entry, owner.body if owner is not None else "")


def _check_target(graph: Graph, route: Route, body: str) -> Iterator[Finding]:
    target = route.target
    if target is None or target in graph.ids_by_body.get(body, {}):
        return
    elsewhere = graph.nodes.get(target)
    if elsewhere is not None:
        yield Finding(
            code="TARGET_IN_OTHER_BODY",
            message=f"`{target}` is in another body, which a route cannot enter from here",
            path=route.path,
            hint=_other_body_hint(graph, elsewhere, body),
        )
        return
    yield Finding(
        code="UNKNOWN_TARGET",
        message=f"unknown node `{target}`",
        path=route.path,
        hint=graph.suggestions.hint(target, graph.names_in(body), otherwise="the nodes here are"),
    )


def _other_body_hint(graph: Graph, elsewhere: OutlineNode, body: str) -> str:
    if elsewhere.body in graph.enclosing(body):
        here = graph.outline.bodies.get(body)
        owner = f"`{here.owner}`" if here is not None and here.owner is not None else "the node around it"
        return f"leave this body with `next: {EXIT}` and continue from {owner}"
    inside = graph.outline.bodies.get(elsewhere.body)
    owner = f"`{inside.owner}`" if inside is not None and inside.owner is not None else "its owner"
    return f"a body can only be entered at its first node, through {owner}"


def _unreachable(graph: Graph, reached: set[str]) -> Iterator[Finding]:
    if not reached:
        return
    native = graph.outline.native
    for node in graph.nodes.values():
        if node.id in reached or not _owner_reached(graph, node, reached):
            continue
        yield Finding(
            code="UNREACHABLE_NODE",
            message=f"no path leads to `{node.id}`",
            path=node.path,
            hint="route another node to it, or remove it",
            # The published format accepts such nodes, so documents that other tools accept must load.
            severity=Severity.ERROR if native else Severity.WARNING,
        )


def _owner_reached(graph: Graph, node: OutlineNode, reached: set[str]) -> bool:
    """Whether the node around this one is reached; if it is not, one finding for the outer node is enough."""
    body = graph.outline.bodies.get(node.body)
    return body is None or body.owner is None or body.owner in reached


def _dead_ends(graph: Graph, reached: set[str]) -> Iterator[Finding]:
    if not graph.outline.native and not any(graph.steps.values()):
        return
    branch_nodes = _nodes_of_branches(graph)
    for node in graph.nodes.values():
        kind = kind_named(node.type)
        if node.body != "" or kind is None or kind.is_final:
            continue
        if node.id not in reached or node.id in branch_nodes:
            continue
        exits = [route for route in node.routes if route.target is None and not _is_implicit(route, node)]
        yield from (_exit_in_root(route) for route in exits)
        if node.id in graph.leaving and not exits:
            yield _dead_end(graph, node)
    for route in graph.outline.error_routes:
        if route.target is None:
            yield _exit_in_root(route)


def _nodes_of_branches(graph: Graph) -> set[str]:
    """Nodes of the root that a branch walks: they may leave the branch, or `bodies` reports that they never do."""
    members: set[str] = set()
    for body in graph.outline.bodies.values():
        if not body.nested and (graph.outline.native or not graph.can_finish(body)):
            members |= graph.region(body).members
    return members


def _is_implicit(route: Route, node: OutlineNode) -> bool:
    """Whether a way out is not written, but follows from being the last in the list."""
    if route.kind == "else":
        return not route.path.endswith("/else")
    return route.kind == "next" and route.path == node.fields_path


def _dead_end(graph: Graph, node: OutlineNode) -> Finding:
    hint = "add an `end` node after it, or name its successor with `next`"
    if not graph.outline.listed_order:
        hint = f"add an edge with `source: {node.id}`"
    return Finding(
        code="DEAD_END",
        message=f"nothing comes after `{node.id}`, and it is not an end node",
        path=node.path,
        hint=hint,
    )


def _exit_in_root(route: Route) -> Finding:
    return Finding(
        code="EXIT_IN_ROOT",
        message=f"`{EXIT}` leaves a branch, an item or an iteration, and this node is in none of them",
        path=route.path,
        hint="name an `end` node",
    )


def _no_end(graph: Graph, reached: set[str]) -> Iterator[Finding]:
    if not graph.outline.native or not reached or reached & graph.uncertain:
        return
    kinds = [kind_named(graph.nodes[name].type) for name in reached]
    if any(kind is None or kind.run_end is not None for kind in kinds):
        return
    yield Finding(
        code="NO_END",
        message="no end node can be reached, so a run can never complete",
        path="/nodes",
        hint="add a node with `type: end`",
    )

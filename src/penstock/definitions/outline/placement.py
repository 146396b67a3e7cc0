"""Which body each node belongs to, including the case where a branch only names its entry node.

The published format writes the nodes of a branch beside all others; the native format writes them inside the branch. A
placement makes both look the same, so that they can be drawn and compared alike.

Above it: `drawing.model` and `diff.nodes`. Below it: `document`. It reports nothing. Branches that share nodes, or that
have an edge coming in from outside, stay where they were written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.limits import BRANCH_STEPS_MAX
from penstock.definitions.outline.document import Body, Outline, OutlineNode, Route

__all__ = ["Placement", "placement_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The body of every node id. Nodes that only one branch walks are placed in this branch."""

    outline: Outline
    nodes: dict[str, OutlineNode]
    bodies: dict[str, str]

    def body_of(self, node: OutlineNode) -> str:
        """The body in which a node is walked; a second node with the same id stays where it was written."""
        return self.bodies[node.id] if self.nodes.get(node.id) is node else node.body

    def leaves(self, node: OutlineNode, route: Route) -> bool:
        """Whether a route finishes the body instead of continuing inside it."""
        if route.target is None:
            return True
        body = self.outline.bodies.get(self.body_of(node))
        return body is not None and not body.nested and body.exit_target == route.target

    def holds_nodes(self, body: str) -> bool:
        """Whether a body has its nodes to itself; False for a branch whose nodes stayed beside its fork."""
        described = self.outline.bodies.get(body)
        if described is None:
            return False
        return described.nested or (described.entry is not None and self.bodies.get(described.entry) == body)

    def enclosing(self, body: str) -> Iterator[str]:
        """Yield a body and those around it, innermost first; the last is the root unless ids contradict each other."""
        seen: set[str] = set()
        current = body
        while current not in seen:
            seen.add(current)
            yield current
            described = self.outline.bodies.get(current)
            owner = described.owner if described is not None else None
            if owner is None or owner not in self.bodies:
                return
            current = self.bodies[owner]

    def reached(self) -> set[str]:
        """The ids of all nodes that a run can reach."""
        pending = [route.target for route in self.outline.error_routes]
        pending.append(self.outline.entry)
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name is None or name in seen or name not in self.nodes:
                continue
            seen.add(name)
            pending.extend(self.steps(self.nodes[name]))
        return seen

    def steps(self, node: OutlineNode) -> Iterator[str]:
        """Where a run can go from a node: along its routes and into its bodies."""
        yield from (route.target for route in node.routes if route.target is not None)
        described = (self.outline.bodies.get(body) for body in node.bodies)
        yield from (body.entry for body in described if body is not None and body.entry is not None)


def placement_of(outline: Outline) -> Placement:
    """Place every node of an outline."""
    nodes = outline.by_id()
    placement = Placement(outline=outline, nodes=nodes, bodies={name: node.body for name, node in nodes.items()})
    forks = list(_closed_forks(placement))
    # Outermost forks first, so that the innermost assignment wins.
    for owner, regions in sorted(forks, key=lambda fork: -sum(map(len, fork[1].values()))):
        around = {_owner(outline, body) for body in placement.enclosing(placement.bodies[owner])}
        # Without this check, a branch that leads back into a fork around it would contain itself.
        if around.isdisjoint(name for region in regions.values() for name in region):
            placement.bodies.update((name, body) for body, region in regions.items() for name in region)
    return placement


def _owner(outline: Outline, body: str) -> str | None:
    described = outline.bodies.get(body)
    return described.owner if described is not None else None


def _closed_forks(placement: Placement) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Every node whose branches are written beside it and are self-contained, with the nodes of each branch."""
    sources = _sources(placement)
    walked_left = BRANCH_STEPS_MAX
    for owner, node in placement.nodes.items():
        bodies = [placement.outline.bodies[body] for body in node.bodies if body in placement.outline.bodies]
        if not bodies or any(body.nested or body.owner != owner for body in bodies) or walked_left <= 0:
            continue
        regions = {body.id: _walk(body, placement) for body in bodies}
        walked_left -= sum(map(len, regions.values()))
        disjoint = sum(map(len, regions.values())) == len(set().union(*regions.values()))
        closed = all(
            source in region or (source == owner and name == placement.outline.bodies[body].entry)
            for body, region in regions.items()
            for name in region
            for source in sources[name]
        )
        if disjoint and closed:
            yield owner, regions


def _walk(body: Body, placement: Placement) -> set[str]:
    home = placement.nodes[body.owner or ""].body
    members: set[str] = set()
    pending: list[str | None] = [body.entry]
    while pending:
        name = pending.pop()
        if name is None or name in members or name in (body.exit_target, body.owner):
            continue
        if name in placement.nodes and placement.nodes[name].body == home:
            members.add(name)
            pending.extend(placement.steps(placement.nodes[name]))
    return members


def _sources(placement: Placement) -> dict[str, set[str]]:
    sources: dict[str, set[str]] = {name: set() for name in placement.nodes}
    for name, node in placement.nodes.items():
        for target in placement.steps(node):
            if target in sources:
                sources[target].add(name)
    for start in (placement.outline.entry, *(route.target for route in placement.outline.error_routes)):
        if start in sources:
            sources[start].add("")  # not a node: the run itself
    return sources

"""What can be reached from where: the graph of an outline, with names resolved.

Above it: `checks.graph` and `checks.bodies`; `checks.expressions`, which asks what a node can see. Below it:
`document`. It reports nothing. A misspelt target counts as the name it most resembles, so that one mistake does not
look like five.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.limits import BRANCH_STEPS_MAX
from penstock.definitions.node_parts.kind import Pace
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import Body, Outline, OutlineNode
from penstock.definitions.source.findings import NameSuggestions

__all__ = ["Graph", "Region", "fails", "graph_of", "strong_components"]

_Steps: TypeAlias = Callable[[str], tuple[str, ...]]
# The kinds of routes that a node takes when nothing goes wrong.
_FORWARD_KINDS = frozenset({"edge", "next", "then", "else", "case", "default"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What one body can walk: its nodes, and whether it can reach its join target."""

    members: frozenset[str]
    joins: bool


_UNKNOWN_REGION = Region(members=frozenset(), joins=True)


@dataclass(slots=True, kw_only=True)
class Graph:
    """The resolved graph of an outline. An id stands for the first node with that id."""

    outline: Outline
    suggestions: NameSuggestions
    nodes: dict[str, OutlineNode]
    ids_by_body: dict[str, dict[str, None]]
    steps: dict[str, tuple[str, ...]] = field(default_factory=dict)  # within the body, entries of branches included
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)  # into bodies written inside the node
    leaving: set[str] = field(default_factory=set)  # nodes with a way out of their body
    uncertain: set[str] = field(default_factory=set)  # nodes with a target that could not be resolved
    _regions: dict[str, Region] = field(default_factory=dict)
    _walked_left: int = BRANCH_STEPS_MAX

    def names_in(self, body: str) -> Collection[str]:
        """The ids of one body, in document order."""
        return self.ids_by_body.get(body, {})

    def resolve(self, target: str, body: str) -> str | None:
        """The id that a target in a body means: an exact match or the most similar name."""
        names = self.ids_by_body.get(body, {})
        if target in names:
            return target
        return None if target in self.nodes else self.suggestions.nearest(target, names)

    def reached_from(self, roots: Iterable[str]) -> set[str]:
        """Return every node that a walk from these nodes can reach, including nodes inside bodies."""
        return _walk(roots, self._all_steps, frozenset())

    def region(self, body: Body) -> Region:
        """What a body can walk before it joins. Computed once; empty when the walking budget is spent."""
        known = self._regions.get(body.id)
        if known is not None:
            return known
        if self._walked_left <= 0:
            return _UNKNOWN_REGION
        owner_body = self.nodes[body.owner].body if body.owner in self.nodes else ""
        entry = body.entry
        if entry is not None and (not body.nested or entry not in self.nodes):
            entry = self.resolve(entry, owner_body)
        target = body.exit_target
        join = self.resolve(target, owner_body) if target is not None else None
        # A branch that walks back into its own fork starts a second fork instead of joining the first.
        barriers = frozenset(name for name in (join, body.owner) if name is not None)
        met: set[str] = set()
        members = _walk(() if entry is None else (entry,), self._all_steps, barriers, met)
        region = Region(members=frozenset(members), joins=join is not None and join in met)
        self._walked_left -= len(members)
        self._regions[body.id] = region
        return region

    def can_finish(self, body: Body) -> bool:
        """Whether some path through a body leaves it or fails on purpose; True when that is unknown."""
        region = self.region(body)
        if region.joins or not region.members:
            return True
        return any(self._may_leave(self.nodes[name], body) for name in region.members if name in self.nodes)

    def _may_leave(self, node: OutlineNode, body: Body) -> bool:
        if node.id in self.uncertain or kind_named(node.type) is None or fails(node):
            return True
        # A published branch ends at its join target and nowhere else.
        own = node.body == body.id if body.nested else self.outline.native
        return own and node.id in self.leaving

    def contents(self, name: str) -> Iterator[OutlineNode]:
        """A node and everything written inside it."""
        pending, seen = [name], {name}
        while pending:
            node = self.nodes.get(pending.pop())
            if node is None:
                continue
            yield node
            for body in node.bodies:
                written_inside = self.outline.bodies.get(body)
                inner = self.ids_by_body.get(body, {}) if written_inside is not None and written_inside.nested else {}
                pending.extend(member for member in inner if member not in seen)
                seen.update(inner)

    def blocks(self, name: str) -> bool:
        """Whether a node, or something inside it, waits or needs an executor."""
        return any(_waits(node) for node in self.contents(name))

    def enclosing(self, body: str) -> Iterator[str]:
        """A body and the bodies around it, from the inside out."""
        seen: set[str] = set()
        current: str | None = body
        while current is not None and current not in seen:
            seen.add(current)
            yield current
            described = self.outline.bodies.get(current)
            owner = self.nodes.get(described.owner) if described is not None and described.owner is not None else None
            current = owner.body if owner is not None else None

    def _all_steps(self, name: str) -> tuple[str, ...]:
        return (*self.steps.get(name, ()), *self.entries.get(name, ()))


def fails(node: OutlineNode) -> bool:
    """Whether a node fails on purpose: nothing follows it, and it does not end the run."""
    kind = kind_named(node.type)
    return kind is not None and kind.is_final and kind.run_end is None


def _waits(node: OutlineNode) -> bool:
    """Whether a visit to a node waits for something; a node of an unknown type may."""
    kind = kind_named(node.type)
    return kind is None or kind.pace is Pace.WAITS


def graph_of(outline: Outline, suggestions: NameSuggestions | None = None) -> Graph:
    """Resolve the routes of an outline."""
    ids_by_body: dict[str, dict[str, None]] = {}
    for node in outline.nodes:
        ids_by_body.setdefault(node.body, {}).setdefault(node.id)
    graph = Graph(
        outline=outline, suggestions=suggestions or NameSuggestions(), nodes=outline.by_id(), ids_by_body=ids_by_body
    )
    # Nodes with the same id are merged, so that a duplicate id does not cut the graph in two.
    for node in outline.nodes:
        _resolve_node(graph, node)
    return graph


def _resolve_node(graph: Graph, node: OutlineNode) -> None:
    steps = list(graph.steps.get(node.id, ()))
    for route in node.routes:
        if route.target is None:
            graph.leaving.add(node.id)
        elif (resolved := graph.resolve(route.target, node.body)) is not None:
            steps.append(resolved)
        else:
            graph.uncertain.add(node.id)
    moves_on = any(route.kind in _FORWARD_KINDS for route in node.routes)
    kind = kind_named(node.type)
    if not moves_on and (kind is None or kind.has_successor):
        graph.leaving.add(node.id)
    entries = list(graph.entries.get(node.id, ()))
    for body_id in node.bodies:
        body = graph.outline.bodies.get(body_id)
        if body is None or body.entry is None:
            continue
        if body.nested:
            entries.extend(name for name in (body.entry,) if name in graph.nodes)
        elif (resolved := graph.resolve(body.entry, node.body)) is not None:
            steps.append(resolved)
        else:
            graph.uncertain.add(node.id)
    graph.steps[node.id] = tuple(dict.fromkeys(steps))
    graph.entries[node.id] = tuple(dict.fromkeys(entries))


def _walk(roots: Iterable[str], steps: _Steps, barriers: frozenset[str], met: set[str] | None = None) -> set[str]:
    """Return everything reachable without crossing a barrier; barriers that the walk hits are added to `met`."""
    seen: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name in barriers:
            if met is not None:
                met.add(name)
        elif name not in seen:
            seen.add(name)
            pending.extend(steps(name))
    return seen


def strong_components(steps: Mapping[str, tuple[str, ...]]) -> Iterator[frozenset[str]]:
    """The sets of nodes that can all reach each other (Tarjan's algorithm, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: dict[str, None] = {}
    for root in steps:
        if root in order:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _open(root, order, low, stack)
        work.append((root, iter(steps.get(root, ()))))
        while work:
            name, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[name])
                if low[name] == order[name]:
                    yield _close(name, stack)
            elif following not in order:
                _open(following, order, low, stack)
                work.append((following, iter(steps.get(following, ()))))
            elif following in stack:
                low[name] = min(low[name], order[following])


def _open(name: str, order: dict[str, int], low: dict[str, int], stack: dict[str, None]) -> None:
    order[name] = low[name] = len(order)
    stack[name] = None


def _close(name: str, stack: dict[str, None]) -> frozenset[str]:
    members: set[str] = set()
    while name not in members:
        members.add(stack.popitem()[0])
    return frozenset(members)

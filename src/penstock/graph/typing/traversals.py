"""Traversals: which edge types they follow, in which direction, and what that says about the nodes at their ends.

A directed edge is followed from source to target, unless only the other direction fits the node types that are known.
Each of several edge types has a direction of its own; together they connect one pair of node types.

Above it: `blocks`. Below it: `context`, `patterns`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.graph.query.tree import Traversal
from penstock.graph.schema.model import EdgeType, NodeType
from penstock.graph.typing.context import QueryContext
from penstock.graph.typing.patterns import Direction, HopEdge

__all__ = ["Resolution", "resolve_traversal"]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a traversal turned out to be."""

    source: NodeType
    target: NodeType
    edges: tuple[HopEdge, ...]
    minimum: int
    maximum: int


def resolve_traversal(
    context: QueryContext, traversal: Traversal, source: NodeType | None, target: NodeType | None
) -> Resolution | None:
    """Resolve a traversal of which one end is known at least, and both for a wildcard; report what does not fit."""
    resolver = _Resolver(context, traversal, source, target)
    bounds = resolver.bounds()
    members = resolver.members()
    if members is None or bounds is None:
        return None
    edges = resolver.directed(members)
    return None if edges is None else resolver.resolution(edges, bounds)


@dataclass(slots=True)
class _Resolver:
    context: QueryContext
    traversal: Traversal
    source: NodeType | None
    target: NodeType | None

    def _report(self, code: str, message: str, hint: str | None = None) -> None:
        self.context.report(code, message, self.traversal.position, hint)

    def bounds(self) -> tuple[int, int] | None:
        """Check the numbers of steps."""
        traversal = self.traversal
        if not traversal.has_bounds:
            return 1, 1
        minimum, maximum = traversal.minimum or 0, traversal.maximum
        if maximum is None:
            self._report("T15", "the number of steps has no upper bound", f"write `{{{minimum},5}}`")
        elif minimum < 1 or maximum < minimum:
            self._report("T15", "steps are at least 1, and at most no less", "write `{1,3}`")
        elif maximum > limits.GRAPH_HOPS_MAX:
            self._report("T15", f"there are at most {limits.GRAPH_HOPS_MAX} steps", "use a smaller number")
        elif traversal.edge_variable is not None and maximum > 1:
            hint = "leave out the variable of the edge, or the numbers of steps"
            self._report("T23", "several steps have no single edge to bind", hint)
        else:
            return minimum, maximum
        return None

    def members(self) -> tuple[EdgeType, ...] | None:
        """Find the edge types, in the order of the schema."""
        traversal = self.traversal
        if not traversal.edges:
            return tuple(each for each in self.context.schema.edges if self._direction(each) is not None)
        found: dict[str, EdgeType] = {}
        for name in traversal.edges:
            edge = self.context.edge_type(name, traversal.position)
            if edge is None:
                return None
            found[edge.name] = edge
        return tuple(each for each in self.context.schema.edges if each.name in found)

    def _direction(self, edge: EdgeType) -> Direction | None:
        """Find how an edge type is followed between the known ends; None if it does not fit."""
        source = None if self.source is None else self.source.name
        target = None if self.target is None else self.target.name
        outwards = source in (None, edge.source) and target in (None, edge.target)
        inwards = source in (None, edge.target) and target in (None, edge.source)
        if self.traversal.undirected:
            return Direction.BOTH if edge.source == edge.target and outwards else None
        if outwards:
            return Direction.OUT
        return Direction.IN if inwards else None

    def directed(self, members: tuple[EdgeType, ...]) -> tuple[HopEdge, ...] | None:
        """Give every edge type its direction."""
        found: list[HopEdge] = []
        for edge in members:
            direction = self._direction(edge)
            if direction is None:
                self._mismatch(edge)
                return None
            self.context.read_edge(edge)
            found.append(HopEdge(edge, direction))
        return tuple(found)

    def _mismatch(self, edge: EdgeType) -> None:
        shown = f"`{edge.query_name}` leads from `{edge.source}` to `{edge.target}`"
        if self.traversal.undirected and edge.source != edge.target:
            hint = f"write `{edge.query_name}` without `<` and `>`"
            self._report("T22", f"{shown}; only edges within one node type have no direction", hint)
            return
        ends = [
            f"`${name}` is a `{node.name}`"
            for name, node in ((self.traversal.source, self.source), (self.traversal.target, self.target))
            if node is not None
        ]
        self._report("T5", f"{shown}, but {' and '.join(ends)}", self._other_edges())

    def _other_edges(self) -> str | None:
        fitting = [each.query_name for each in self.context.schema.edges if self._direction(each) is not None]
        shown = ", ".join(f"`{name}`" for name in fitting[:6])
        return f"edges that fit here: {shown}" if shown else None

    def resolution(self, edges: tuple[HopEdge, ...], bounds: tuple[int, int]) -> Resolution | None:
        """Find the node types of both ends, and check that several steps stay within one."""
        pairs = {_ends(each) for each in edges}
        if not edges and self.source is not None and self.target is not None:
            pairs = {(self.source.name, self.target.name)}
        if len(pairs) > 1:
            shown = ", ".join(f"`{each.type.query_name}`" for each in edges)
            hint = "all of them have to connect the same two node types; bind both nodes to choose a direction"
            self._report("T5", f"{shown} lead to different node types", hint)
            return None
        source_name, target_name = next(iter(pairs))
        types = self.context.schema.node_types
        minimum, maximum = bounds
        if maximum > 1 and source_name != target_name:
            message = f"several steps cannot lead from `{source_name}` to `{target_name}`"
            self._report("T15", message, "several steps follow edges within one node type")
            return None
        if self.traversal.undirected and source_name != target_name:
            self._report("T22", "edges without direction connect nodes of one type", "write `*` without `<` and `>`")
            return None
        if source_name not in types or target_name not in types:
            return None
        return Resolution(types[source_name], types[target_name], edges, minimum, maximum)


def _ends(edge: HopEdge) -> tuple[str, str]:
    """Return the node types of the hop's source and target."""
    if edge.direction is Direction.IN:
        return edge.type.target, edge.type.source
    return edge.type.source, edge.type.target

"""Checks of written edges: their sources, how many leave a node, and where a run starts.

The published format connects nodes only by edges; native documents may. `graph` checks the targets, through the routes
that the outline makes from edges. An edge from an unknown node makes no route, so it is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import Outline, OutlineNode
from penstock.definitions.source.findings import Finding, NameSuggestions, Severity

__all__ = ["edge_findings"]

_START_SOURCE = "__start__"


def edge_findings(
    document: JsonObject, outline: Outline, suggestions: NameSuggestions | None = None
) -> tuple[Finding, ...]:
    """Return everything that is wrong with the edges of a document; nothing if it has no list of edges."""
    raw = document.get("edges")
    if not isinstance(raw, list):
        return ()
    edges: list[tuple[int, str, str]] = []
    for index, edge in enumerate(raw):
        source, target = (edge.get("source"), edge.get("target")) if isinstance(edge, dict) else (None, None)
        if isinstance(source, str) and isinstance(target, str):
            edges.append((index, source, target))
    nodes = outline.by_id()
    return (
        *_start_edges(edges, outline, len(raw)),
        *_unknown_ends(edges, nodes, suggestions or NameSuggestions()),
        *_edge_counts(edges, nodes),
        *(_double_successors(edges, outline) if outline.native else ()),
    )


def _start_edges(edges: list[tuple[int, str, str]], outline: Outline, count: int) -> Iterator[Finding]:
    starts = [index for index, source, _ in edges if source == _START_SOURCE]
    # The missing start edge may be one that could not be read.
    if not starts and not outline.native and len(edges) == count:
        yield Finding(
            code="START_EDGE",
            message=f"no edge leaves `{_START_SOURCE}`, so the first node is unknown",
            path="/edges",
            hint=f"add an edge with `source: {_START_SOURCE}` and the start node as its target",
        )
    for index in starts[1:]:
        yield Finding(
            code="START_EDGE",
            message=f"a second edge leaves `{_START_SOURCE}`",
            path=f"/edges/{index}/source",
            hint="a run has one first node; remove one of the edges",
        )


def _unknown_ends(
    edges: list[tuple[int, str, str]], nodes: dict[str, OutlineNode], suggestions: NameSuggestions
) -> Iterator[Finding]:
    for index, source, target in edges:
        unknown = [("source", source)] if source != _START_SOURCE and source not in nodes else []
        # The targets of edges from known nodes are routes, and are checked as such.
        if (unknown or source == _START_SOURCE) and target not in nodes:
            unknown.append(("target", target))
        for name, value in unknown:
            yield Finding(
                code="UNKNOWN_TARGET",
                message=f"unknown node `{value}`",
                path=f"/edges/{index}/{name}",
                hint=suggestions.hint(value, nodes, otherwise="the nodes are"),
            )


def _edge_counts(edges: list[tuple[int, str, str]], nodes: dict[str, OutlineNode]) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    for index, source, target in edges:
        node = nodes.get(source)
        if node is None:
            continue
        kind = kind_named(node.type)
        if kind is not None and kind.routes is not None:
            yield Finding(
                code="HAS_NO_EFFECT",
                message=f"`{source}` is a {node.type}: its cases choose the next node, not this edge",
                path=f"/edges/{index}",
                hint=f"remove the edge, or name the target as the {node.type}'s `default`",
                severity=Severity.WARNING,
            )
        elif kind is not None and kind.is_final:
            yield Finding(
                code="EDGE_COUNT",
                message=f"an edge leaves `{source}`, which ends the run",
                path=f"/edges/{index}",
                hint="remove the edge",
            )
        elif source in taken:
            yield Finding(
                code="EDGE_COUNT",
                message=f"a second edge leaves `{source}`; the first goes to `{taken[source]}`",
                path=f"/edges/{index}",
                hint="use a `switch` to choose one target, or a `parallel` to run both",
            )
        else:
            taken[source] = target


def _double_successors(edges: list[tuple[int, str, str]], outline: Outline) -> Iterator[Finding]:
    sources = {source for _, source, _ in edges}
    for node in outline.nodes:
        if node.id in sources and "next" in node.fields:
            yield Finding(
                code="HAS_NO_EFFECT",
                message=f"an edge already names the successor of `{node.id}`, so its `next` is ignored",
                path=node.field_path("next"),
                hint="keep one of the two",
                severity=Severity.WARNING,
            )

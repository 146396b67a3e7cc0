"""The outline of a workflow document: its nodes, bodies and routes, for either format and for broken documents too.

Published and native documents say the same things in different places (``config`` blocks or fields beside ``id``,
``edges`` or listed order, ``target`` or ``next``). Only this module knows the difference; checks, the builder, drawings
and diffs read the outline instead of the document.

Above it: `build.workflow`, `checks.graph`, `checks.expressions`, `drawing.model`, `diff.compare`. Below it: plain JSON
values and the declarations of `nodes`. It does not report mistakes: it leaves out what it cannot understand, and the
schema check reports that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.expansion import expanded
from penstock.definitions.node_parts.kind import BodySource, NodeKind, Reference, Resource
from penstock.definitions.node_parts.outline import EXIT, Body, Outline, OutlineNode, Route, is_native, route_to
from penstock.definitions.nodes import kind_named

__all__ = [
    "EXIT",
    "Body",
    "Outline",
    "OutlineNode",
    "Route",
    "asks_somebody",
    "begins_run",
    "children_of",
    "gives_result",
    "is_native",
    "nodes_of_kinds",
    "outline_of",
    "references_of",
]

_START_SOURCE = "__start__"


def outline_of(document: JsonObject) -> Outline:
    """Read the outline of a document in either format, or of what an agent stands for; never fails."""
    document = expanded(document)
    native = is_native(document)
    edges: dict[str, list[Route]] = {}
    for source, route in _edges(document):
        edges.setdefault(source, []).append(route)
    has_edges = bool(edges) or not native
    outline = Outline(native=native, entry=None, listed_order=not has_edges)
    reader = _Reader(outline=outline, edges=edges)
    root_ids = reader.read_body(document.get("nodes"), path="/nodes", body="")
    if _START_SOURCE in edges:
        outline.entry = edges[_START_SOURCE][0].target
    elif native:
        starts = [node.id for node in outline.nodes if begins_run(node) and node.body == ""]
        outline.entry = starts[0] if starts else (root_ids[0] if root_ids else None)
    outline.bodies[""] = Body(
        id="", owner=None, name="", entry=outline.entry, exit_target=None, path="/nodes", nested=True
    )
    outline.error_routes = tuple(_error_routes(document.get("on_error"), "/on_error")) if native else ()
    return outline


def begins_run(node: OutlineNode) -> bool:
    """Whether runs begin at this node."""
    kind = kind_named(node.type)
    return kind is not None and kind.begins_run


def gives_result(node: OutlineNode) -> bool:
    """Whether a node ends the run with a result."""
    kind = kind_named(node.type)
    return kind is not None and kind.run_end is not None and not kind.run_end.restarts


def asks_somebody(node: OutlineNode) -> bool:
    """Whether a node asks a person a question."""
    kind = kind_named(node.type)
    return kind is not None and bool(kind.answer_fields)


def references_of(node: OutlineNode) -> Iterator[Reference]:
    """The things outside its document that a node needs."""
    kind = kind_named(node.type)
    if kind is not None and kind.references is not None:
        yield from kind.references(node.fields)


def children_of(node: OutlineNode) -> Iterator[Reference]:
    """The workflows that a node runs as children."""
    return (reference for reference in references_of(node) if reference.resource is Resource.WORKFLOW)


def nodes_of_kinds(document: JsonObject, is_wanted: Callable[[NodeKind], bool]) -> Iterator[OutlineNode]:
    """Yield the nodes of some kinds, in document order, without their routes and bodies.

    For questions about a few kinds: in a document of thousands of nodes, the whole outline takes twenty times as long.
    """
    document = expanded(document)
    return _kinds_in(document.get("nodes"), "/nodes", is_wanted, native=is_native(document))


def _kinds_in(
    raw: JsonValue, path: str, is_wanted: Callable[[NodeKind], bool], *, native: bool
) -> Iterator[OutlineNode]:
    for index, node in enumerate(raw if isinstance(raw, list) else []):
        node_id, node_type = (node.get("id"), node.get("type")) if isinstance(node, dict) else (None, None)
        kind = kind_named(node_type) if isinstance(node_type, str) else None
        if not isinstance(node, dict) or not isinstance(node_id, str) or kind is None:
            continue
        wanted = is_wanted(kind)
        if not wanted and kind.bodies is None:
            continue
        fields, fields_path = _fields_of(node, f"{path}/{index}", native=native)
        read = OutlineNode(
            id=node_id,
            type=kind.name,
            path=f"{path}/{index}",
            body="",
            fields=fields,
            fields_path=fields_path,
            routes=(),
            bodies=(),
        )
        if wanted:
            yield read
        for source in kind.bodies.read(read) if kind.bodies is not None else ():
            if source.entry is None:
                yield from _kinds_in(source.nodes, source.path, is_wanted, native=native)


def _edges(document: JsonObject) -> Iterator[tuple[str, Route]]:
    raw = document.get("edges")
    for index, edge in enumerate(raw if isinstance(raw, list) else []):
        if isinstance(edge, dict):
            source, target = edge.get("source"), edge.get("target")
            if isinstance(source, str) and isinstance(target, str):
                yield source, Route(kind="edge", target=target, path=f"/edges/{index}/target")


@dataclass(slots=True, kw_only=True)
class _Reader:
    outline: Outline
    edges: dict[str, list[Route]]

    def read_body(self, raw: JsonValue, *, path: str, body: str) -> list[str]:
        """Read a list of nodes into the outline and return their ids in order."""
        members = [
            (index, node)
            for index, node in enumerate(raw if isinstance(raw, list) else [])
            if isinstance(node, dict) and isinstance(node.get("id"), str) and isinstance(node.get("type"), str)
        ]
        ids = [str(node["id"]) for _, node in members]
        for order, (index, node) in enumerate(members):
            following = ids[order + 1] if order + 1 < len(ids) else None
            self._read_node(node, path=f"{path}/{index}", body=body, following=following)
        return ids

    def _read_node(self, node: JsonObject, *, path: str, body: str, following: str | None) -> None:
        fields, fields_path = _fields_of(node, path, native=self.outline.native)
        node_id, node_type = str(node["id"]), str(node["type"])
        kind, position = kind_named(node_type), len(self.outline.nodes)
        read = OutlineNode(
            id=node_id,
            type=node_type,
            path=path,
            body=body,
            fields=fields,
            fields_path=fields_path,
            routes=tuple(self._routes(node_id, kind, fields, fields_path, following)),
            bodies=(),
        )
        self.outline.nodes.append(read)
        if kind is not None and kind.bodies is not None:
            bodies = tuple(self._body(read, source) for source in kind.bodies.read(read))
            self.outline.nodes[position] = replace(read, bodies=bodies)

    def _routes(
        self, node_id: str, kind: NodeKind | None, fields: JsonObject, path: str, following: str | None
    ) -> Iterator[Route]:
        if kind is not None and kind.routes is not None:
            yield from kind.routes(fields, path)
        elif kind is None or kind.has_successor:
            edges = self.edges.get(node_id)
            if edges:
                yield from edges
            elif "next" in fields:
                yield from _next_routes(fields["next"], f"{path}/next", following)
            elif self.outline.listed_order:
                yield Route(kind="next", target=following, path=path)
        if self.outline.native:
            yield from _error_routes(fields.get("on_error"), f"{path}/on_error")
            timeout_target = fields.get("on_timeout")
            if isinstance(timeout_target, str):
                yield route_to("timeout", timeout_target, f"{path}/on_timeout")

    def _body(self, node: OutlineNode, source: BodySource) -> str:
        """Read one body of a node, with the nodes inside it, and return its id."""
        entry, nested, join_target = source.entry, source.entry is None, None
        body_id = node.id if nested and not source.name else f"{node.id}/{source.name}"
        if nested:
            ids = self.read_body(source.nodes, path=source.path, body=body_id)
            entry = ids[0] if ids else None
        else:
            join_target = next((route.target for route in node.routes if route.kind in ("edge", "next")), None)
        body = Body(
            id=body_id,
            owner=node.id,
            name=source.name,
            entry=entry,
            exit_target=join_target,
            path=source.path,
            nested=nested,
        )
        self.outline.bodies.setdefault(body_id, body)
        return body_id


def _fields_of(node: JsonObject, path: str, *, native: bool) -> tuple[JsonObject, str]:
    config = node.get("config")
    if not native:
        fields = dict(config) if isinstance(config, dict) else {}
        fields.update({key: node[key] for key in ("retry", "metadata") if key in node})
        # A node and an interrupt can both have a timeout, on two levels; for interrupts the inner one wins.
        if "timeout" in node:
            fields.setdefault("timeout", node["timeout"])
        return fields, f"{path}/config"
    flat = {key: value for key, value in node.items() if key not in ("id", "type", "config")}
    if isinstance(config, dict):
        return {**config, **flat}, f"{path}/config"
    return flat, path


def _next_routes(value: JsonValue, path: str, following: str | None) -> Iterator[Route]:
    if isinstance(value, str):
        yield route_to("next", value, path)
    elif isinstance(value, dict):
        then, otherwise = value.get("then"), value.get("else")
        if isinstance(then, str):
            yield route_to("then", then, f"{path}/then", str(value.get("when") or ""))
        if isinstance(otherwise, str):
            yield route_to("else", otherwise, f"{path}/else", "otherwise")
        elif "else" not in value:
            yield Route(kind="else", target=following, path=path, label="otherwise")


def _error_routes(value: JsonValue, path: str) -> Iterator[Route]:
    many = isinstance(value, list)
    for index, route in enumerate(value if isinstance(value, list) else [value]):
        target = route.get("next") if isinstance(route, dict) else None
        if isinstance(target, str):
            yield route_to("error", target, f"{path}/{index}/next" if many else f"{path}/next", "on error")

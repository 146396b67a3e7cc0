"""The outline of a workflow document: its nodes, bodies and routes, whatever its format and however broken it is.

Published and native documents say the same things in different places (``config`` blocks or fields beside ``id``,
``edges`` or listed order, ``target`` or ``next``). This module is the one place that knows the difference; checks,
the builder, drawings and diffs read the outline instead of the document.

Above it: `build.workflow`, `checks.graph`, `checks.expressions`, `drawing.mermaid`, `diff.compare`. Below it: plain
JSON values. It does not report mistakes: what it cannot understand it leaves out, and the schema check says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue

__all__ = ["EXIT", "Body", "Outline", "OutlineNode", "Route", "is_native", "outline_of"]

# A route target that leaves the body: it finishes the branch, the item or the iteration.
EXIT = "$exit"
_START_SOURCE = "__start__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One way out of a node. `target` is a node id, or None for leaving the body."""

    kind: str  # next, then, else, case, default, error, timeout, edge
    target: str | None
    path: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A sequence of nodes that one scope of a run walks: the root, a branch, the inside of a for_each or a loop."""

    id: str
    owner: str | None  # the node this body belongs to
    name: str  # the branch name, "" otherwise
    entry: str | None
    exit_target: str | None  # the join target of a branch given by `entry`
    path: str
    nested: bool  # True when the nodes are written inside the owner


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineNode:
    """A node with its fields in one mapping, wherever the document wrote them."""

    id: str
    type: str
    path: str
    body: str
    fields: JsonObject
    fields_path: str
    routes: tuple[Route, ...]
    bodies: tuple[str, ...]

    def field_path(self, name: str) -> str:
        """The JSON pointer of one of the node's fields."""
        return f"{self.fields_path}/{name}" if name in self.fields else self.path


@dataclass(slots=True, kw_only=True)
class Outline:
    """Everything that graph checks need. `nodes` keeps document order; a duplicate id appears twice."""

    native: bool
    entry: str | None
    nodes: list[OutlineNode] = field(default_factory=list)
    bodies: dict[str, Body] = field(default_factory=dict)
    error_routes: tuple[Route, ...] = ()
    listed_order: bool = False

    def by_id(self) -> dict[str, OutlineNode]:
        """The nodes by id; of duplicates the first."""
        found: dict[str, OutlineNode] = {}
        for node in self.nodes:
            found.setdefault(node.id, node)
        return found


def is_native(document: JsonValue) -> bool:
    """True for a document of our own format, marked by ``penstock`` at the top."""
    return isinstance(document, dict) and "penstock" in document


def outline_of(document: JsonObject) -> Outline:
    """Read the outline of a document in either format; never fails."""
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
        starts = [node.id for node in outline.nodes if node.type == "start" and node.body == ""]
        outline.entry = starts[0] if starts else (root_ids[0] if root_ids else None)
    outline.bodies[""] = Body(
        id="", owner=None, name="", entry=outline.entry, exit_target=None, path="/nodes", nested=True
    )
    outline.error_routes = tuple(_error_routes(document.get("on_error"), "/on_error")) if native else ()
    return outline


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
        """Read a list of nodes into the outline; the ids in order."""
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
        position = len(self.outline.nodes)
        routes = tuple(self._routes(node_id, node_type, fields, fields_path, following))
        join_target = next((route.target for route in routes if route.kind in ("edge", "next")), None)
        read = OutlineNode(
            id=node_id,
            type=node_type,
            path=path,
            body=body,
            fields=fields,
            fields_path=fields_path,
            routes=routes,
            bodies=(),
        )
        self.outline.nodes.append(read)
        bodies = tuple(self._bodies(read, join_target))
        if bodies:
            self.outline.nodes[position] = OutlineNode(
                id=node_id,
                type=node_type,
                path=path,
                body=body,
                fields=fields,
                fields_path=fields_path,
                routes=routes,
                bodies=bodies,
            )

    def _routes(
        self, node_id: str, node_type: str, fields: JsonObject, path: str, following: str | None
    ) -> Iterator[Route]:
        if node_type == "switch":
            yield from _switch_routes(fields, path)
        elif node_type not in ("end", "fail", "continue_as_new"):
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
                yield _route("timeout", timeout_target, f"{path}/on_timeout")

    def _bodies(self, node: OutlineNode, join_target: str | None) -> Iterator[str]:
        if node.type in ("for_each", "loop"):
            yield self._nested_body(node, name="", nodes=node.fields.get("nodes"), path=f"{node.fields_path}/nodes")
            return
        branches = node.fields.get("branches")
        if node.type not in ("parallel", "race") or not isinstance(branches, list):
            return
        for index, branch in enumerate(branches):
            if not isinstance(branch, dict) or not isinstance(branch.get("name"), str):
                continue
            path, name = f"{node.fields_path}/branches/{index}", str(branch["name"])
            entry = branch.get("entry")
            if isinstance(entry, str):
                body = Body(
                    id=f"{node.id}/{name}",
                    owner=node.id,
                    name=name,
                    entry=entry,
                    exit_target=join_target,
                    path=f"{path}/entry",
                    nested=False,
                )
                self.outline.bodies.setdefault(body.id, body)
                yield body.id
            elif "nodes" in branch:
                yield self._nested_body(node, name=name, nodes=branch["nodes"], path=f"{path}/nodes")

    def _nested_body(self, node: OutlineNode, *, name: str, nodes: JsonValue, path: str) -> str:
        body_id = f"{node.id}/{name}" if name else node.id
        ids = self.read_body(nodes, path=path, body=body_id)
        body = Body(
            id=body_id,
            owner=node.id,
            name=name,
            entry=ids[0] if ids else None,
            exit_target=None,
            path=path,
            nested=True,
        )
        self.outline.bodies.setdefault(body_id, body)
        return body_id


def _fields_of(node: JsonObject, path: str, *, native: bool) -> tuple[JsonObject, str]:
    config = node.get("config")
    if not native:
        fields = dict(config) if isinstance(config, dict) else {}
        fields.update({key: node[key] for key in ("retry", "metadata") if key in node})
        # A node-level timeout and an interrupt's own timeout live on two levels; the inner one wins for interrupts.
        if "timeout" in node:
            fields.setdefault("timeout", node["timeout"])
        return fields, f"{path}/config"
    flat = {key: value for key, value in node.items() if key not in ("id", "type", "config")}
    if isinstance(config, dict):
        return {**config, **flat}, f"{path}/config"
    return flat, path


def _route(kind: str, target: str, path: str, label: str = "") -> Route:
    return Route(kind=kind, target=None if target == EXIT else target, path=path, label=label)


def _switch_routes(fields: JsonObject, path: str) -> Iterator[Route]:
    cases = fields.get("cases")
    for index, case in enumerate(cases if isinstance(cases, list) else []):
        if not isinstance(case, dict):
            continue
        key = "target" if "target" in case else "next"
        target, when = case.get(key), case.get("when")
        if isinstance(target, str):
            yield _route("case", target, f"{path}/cases/{index}/{key}", str(when or ""))
    default = fields.get("default")
    if isinstance(default, str):
        yield _route("default", default, f"{path}/default", "otherwise")


def _next_routes(value: JsonValue, path: str, following: str | None) -> Iterator[Route]:
    if isinstance(value, str):
        yield _route("next", value, path)
    elif isinstance(value, dict):
        then, otherwise = value.get("then"), value.get("else")
        if isinstance(then, str):
            yield _route("then", then, f"{path}/then", str(value.get("when") or ""))
        if isinstance(otherwise, str):
            yield _route("else", otherwise, f"{path}/else", "otherwise")
        elif "else" not in value:
            yield Route(kind="else", target=following, path=path, label="otherwise")


def _error_routes(value: JsonValue, path: str) -> Iterator[Route]:
    many = isinstance(value, list)
    for index, route in enumerate(value if isinstance(value, list) else [value]):
        target = route.get("next") if isinstance(route, dict) else None
        if isinstance(target, str):
            yield _route("error", target, f"{path}/{index}/next" if many else f"{path}/next", "on error")

"""The plain form of a document: nodes, routes and bodies, the same for both formats.

Above it: the node types declare their routes and bodies in this form, and `outline.document` reads a whole document
into it. Below it: plain JSON values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import NodeType

__all__ = [
    "EXIT",
    "KNOWN_TYPES",
    "Body",
    "Outline",
    "OutlineNode",
    "Route",
    "has_only_known_types",
    "is_native",
    "route_to",
    "timeout_route",
]

# A route target that leaves the body, which finishes the branch, the item or the iteration.
EXIT = "$exit"
KNOWN_TYPES = frozenset(str(node_type) for node_type in NodeType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One way out of a node. `target` is a node id, or None to leave the body."""

    kind: str  # next, then, else, case, default, error, timeout, edge
    target: str | None
    path: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A sequence of nodes that one scope of a run walks: the root, a branch, or the inside of a for_each or a loop."""

    id: str
    owner: str | None  # the node this body belongs to
    name: str  # the branch name, "" otherwise
    entry: str | None
    exit_target: str | None  # the join target of a branch given by `entry`
    path: str
    nested: bool  # True when the nodes are written inside the owner


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineNode:
    """A node with its fields in one mapping, no matter where the document wrote them."""

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
        """The nodes by id; for a duplicate id, the first node."""
        found: dict[str, OutlineNode] = {}
        for node in self.nodes:
            found.setdefault(node.id, node)
        return found


def is_native(document: JsonValue) -> bool:
    """Whether a document is in Penstock's own format, marked by ``penstock`` at the top."""
    return isinstance(document, dict) and "penstock" in document


def has_only_known_types(outline: Outline) -> bool:
    """Whether there are nodes and all types are known; a node that seems to be missing may have a misspelt type."""
    return bool(outline.nodes) and all(node.type in KNOWN_TYPES for node in outline.nodes)


def route_to(kind: str, target: str, path: str, label: str = "") -> Route:
    """Make a route from a target as the document writes it; `$exit` becomes None."""
    return Route(kind=kind, target=None if target == EXIT else target, path=path, label=label)


def timeout_route(fields: JsonObject) -> tuple[str | None, bool]:
    """The target of a node's timeout (None leaves the body), and whether the node has one at all."""
    target = fields.get("on_timeout")
    if not isinstance(target, str):
        return None, False
    return (None if target == EXIT else target), True

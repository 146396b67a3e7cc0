"""What a workflow document can reach beside itself, by name: other workflows, tools, queries, models, agents.

    workflow:child            a child, or a workflow that is called as a tool
    workflow:child@HASH       a child in one version
    tool:search, query:shop/orders, upstream:crm.find      capabilities of the tenant
    query:*                   all whose names begin like this
    model:fast, agent:helper, graph:shop, server:crm/find

A built-in operation is named with its arguments: what it reaches depends on them. An argument that is computed when the
node runs can be anything, and is `*`.

`touched_by` says what runs use beside that, for people who look at a document: addresses, secrets, steps, triggers.

Above it: `operations.reachable`, which follows the names. Below it: `outline.document`, the declarations of `nodes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.base.lazy_import import lazy_import
from penstock.definitions.jq.templates import SECRET_REFERENCE

if TYPE_CHECKING:
    from penstock.definitions import nodes
    from penstock.definitions.node_parts.kind import NodeKind
    from penstock.definitions.outline import document as outline
else:
    nodes = lazy_import("penstock.definitions.nodes")
    outline = lazy_import("penstock.definitions.outline.document")

__all__ = ["ANY", "LISTS", "Reached", "reached_by", "reached_by_node", "touched_by", "workflow_key"]

ANY = "*"
"""The value of an argument that is computed, and the end of a name that stands for many."""
_OWN_SERVER = "penstock"
LISTS = ("tools/call", "tools/list")
"""What a model calls this server with: it chooses among the names that are allowed."""
_UNKNOWN = ((ANY, ANY),)
_REGISTERED = ("model", "agent")
_ADDRESSES = ("url", "base_url")
_STEP = "step"
_TRIGGERS = ("schedule", "webhook")


class Reached(msgspec.Struct, frozen=True):
    """Something outside a document that its runs can reach."""

    name: str
    arguments: tuple[tuple[str, str], ...] | None = None
    """Of a built-in operation: its arguments that are texts; `*` for one that is computed. None for anything else."""

    @property
    def known_arguments(self) -> dict[str, str]:
        """The arguments by name; the member `*` says that any other may be there, too."""
        return dict(self.arguments or ())


def workflow_key(name: str, version_pin: str | None = None) -> str:
    """Return the name under which a workflow is reached: its newest version, or the one with this hash."""
    return f"workflow:{name}" if version_pin is None else f"workflow:{name}@{version_pin}"


def reached_by(document: JsonObject) -> tuple[Reached, ...]:
    """Return everything that the nodes of a document name, compensations included. Never fails."""
    native = outline.is_native(document)
    found: dict[Reached, None] = {}
    for kind, fields in _acting_nodes(document):
        found.update(dict.fromkeys(reached_by_node(kind, fields, native=native)))
    return tuple(found)


def touched_by(document: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return what runs of a document use that nothing stored stands for, each with its kind, sorted. Never fails."""
    found: set[tuple[str, str]] = set()
    for node_type, fields in _acting_nodes(document):
        kind = nodes.kind_named(node_type)
        for reference in kind.references(fields) if kind is not None and kind.references is not None else ():
            if str(reference.resource) == _STEP and isinstance(reference.name, str):
                found.add((_STEP, reference.name))
        found |= {("address", text) for name in _ADDRESSES if isinstance(text := fields.get(name), str)}
    text = encode_bytes(document).decode()
    found |= {("secret", name) for name in SECRET_REFERENCE.findall(text)}
    triggers = document.get("triggers")
    for trigger in triggers if isinstance(triggers, list) else ():
        found |= {("trigger", kind) for kind in _TRIGGERS if isinstance(trigger, dict) and kind in trigger}
    return tuple(sorted(found))


def _acting_nodes(document: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the nodes that reach out, each with its type, and what undoes them."""
    for node in outline.nodes_of_kinds(document, _reaches):
        yield node.type, node.fields
        undo = node.fields.get("compensate")
        if isinstance(undo, dict):
            yield str(undo["type"]) if "type" in undo else nodes.implied_activity(undo).name, undo


def _reaches(kind: NodeKind) -> bool:
    return kind.references is not None or kind.activity is not None


def reached_by_node(node_type: str, fields: JsonObject, *, native: bool = True) -> Iterator[Reached]:
    """Yield what one node names."""
    kind = nodes.kind_named(node_type)
    if kind is None:
        return
    for reference in kind.references(fields) if kind.references is not None else ():
        name, resource = reference.name, str(reference.resource)
        if not isinstance(name, str):
            continue
        if resource == "workflow":
            yield Reached(workflow_key(name, reference.version_pin))
        elif resource in _REGISTERED:
            yield Reached(f"{resource}:{name}")
        elif resource == "server":
            yield Reached(f"server:{name}/{fields.get('tool')}")
    graph = fields.get("graph")
    if kind.name == "query" and isinstance(graph, str):
        yield Reached(f"graph:{graph}")
        if isinstance(fields.get("query"), str):
            yield Reached(f"query:{graph}/{fields['query']}")
    if kind.name == "tool_call" and fields.get("server") == _OWN_SERVER:
        yield from _own_calls(fields, native=native)


def _own_calls(fields: JsonObject, *, native: bool) -> Iterator[Reached]:
    """Yield what a call of this server itself reaches."""
    tool, allowed = fields.get("tool"), fields.get("allow")
    if tool in LISTS:
        for name in allowed if isinstance(allowed, list) else []:
            if isinstance(name, str):
                # A name without a prefix is an operation, whose arguments a model or an expression chooses.
                yield Reached(name) if ":" in name or name.endswith(ANY) else Reached(name, _UNKNOWN)
    elif isinstance(tool, str):
        yield Reached(tool) if ":" in tool else Reached(tool, _arguments(fields.get("arguments"), native=native))


def _arguments(raw: JsonValue, *, native: bool) -> tuple[tuple[str, str], ...]:
    """Return the arguments that are known beforehand; the others are computed, or were left out."""
    if raw is None:
        return ()
    if not isinstance(raw, dict) or raw.keys() & {"jq", "literal"}:
        return _UNKNOWN
    return tuple((name, _known(value, native=native)) for name, value in raw.items())


def _known(value: JsonValue, *, native: bool) -> str:
    literal = object_or_empty(value).get("literal") if native else None
    if isinstance(literal, str):
        return literal
    return value if native and isinstance(value, str) and "${" not in value else ANY

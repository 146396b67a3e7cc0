"""What runs of a document can reach: other workflows, tools, queries, models, agents, addresses, secrets.

It reads one document. Whoever wants to know what the children reach asks for theirs, too.

Above it: `operations.permissions.reach`. Below it: `outline.document`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.jq.templates import SECRET_REFERENCE

if TYPE_CHECKING:
    from penstock.definitions.node_parts.outline import OutlineNode
    from penstock.definitions.outline import document as outline
else:
    outline = lazy_import("penstock.definitions.outline.document")

__all__ = ["Reached", "reached_by"]

_ADDRESSES = ("url", "base_url")


class Reached(msgspec.Struct, frozen=True, order=True):
    """One thing outside a document that its runs may use."""

    kind: str
    """workflow, step, server, agent, model, tool, query, address, secret or trigger."""
    name: str


def reached_by(document: JsonObject) -> tuple[Reached, ...]:
    """Return everything that runs of a document may use, sorted. Never fails."""
    found = {item for node in outline.nodes_of_kinds(document, lambda kind: True) for item in _of_node(node)}
    text = encode_bytes(document).decode()
    found |= {Reached("secret", name) for name in SECRET_REFERENCE.findall(text)}
    triggers = document.get("triggers")
    for trigger in triggers if isinstance(triggers, list) else ():
        if isinstance(trigger, dict):
            found |= {Reached("trigger", kind) for kind in ("schedule", "webhook") if kind in trigger}
    return tuple(sorted(found))


def _of_node(node: OutlineNode) -> Iterator[Reached]:
    for reference in outline.references_of(node):
        if isinstance(reference.name, str):
            yield Reached(str(reference.resource), reference.name)
    fields = node.fields
    yield from (Reached("tool", name) for name in _texts(fields.get("tool")))
    yield from (Reached("tool", name) for name in _texts(fields.get("tools")))
    yield from (Reached("tool", name) for name in _texts(fields.get("allow")))
    if isinstance(fields.get("graph"), str):
        yield Reached("query", f"{fields['graph']}/{fields.get('query', '*')}")
    yield from (Reached("address", text) for name in _ADDRESSES for text in _texts(fields.get(name)))


def _texts(value: JsonValue) -> Iterator[str]:
    for item in value if isinstance(value, list) else (value,):
        if isinstance(item, str):
            yield item

"""The rule of the published profile that no schema can express: no question to a person on a parallel branch.

Above it: `shape.document`. Below it: `outline.document`, which reads the nodes and routes of any document, even a
broken one. Native documents may ask inside branches, so this check does not apply to them.
"""

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import OutlineNode, asks_somebody, outline_of

__all__ = ["interrupts_in_branches"]


def interrupts_in_branches(document: JsonObject) -> Iterator[tuple[OutlineNode, str, OutlineNode]]:
    """Yield each interrupt on a branch once, as (parallel node, branch name, interrupt). Works on any graph."""
    nodes = outline_of(document).by_id()
    reported: set[str] = set()
    for fork in nodes.values():
        kind = kind_named(fork.type)
        if kind is None or kind.published is None or kind.bodies is None:
            continue
        join_target = next((route.target for route in fork.routes if route.kind == "edge"), None)
        for name, entry in _branches(fork):
            for node in _walk(nodes, entry, {fork.id, join_target}):
                if asks_somebody(node) and node.id not in reported:
                    reported.add(node.id)
                    yield fork, name, node


def _branches(fork: OutlineNode) -> Iterator[tuple[str, str]]:
    branches = fork.fields.get("branches")
    for branch in branches if isinstance(branches, list) else []:
        if isinstance(branch, dict) and isinstance(entry := branch.get("entry"), str):
            yield str(branch.get("name", "")), entry


def _walk(nodes: dict[str, OutlineNode], entry: str, barriers: set[str | None]) -> Iterator[OutlineNode]:
    """The nodes that a branch can reach before its join target."""
    pending, seen = [entry], set(barriers)
    while pending:
        name = pending.pop()
        node = nodes.get(name)
        if name in seen or node is None:
            continue
        seen.add(name)
        yield node
        pending.extend(route.target for route in reversed(node.routes) if route.target is not None)

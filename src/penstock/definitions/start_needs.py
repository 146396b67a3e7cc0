"""What a workflow document requires from whoever starts it: its own scopes, and the workflows that it runs as children.

Above it: `operations.permissions.starting`, which decides. Below it: `outline.document`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from penstock.definitions.outline import document as outline
else:
    outline = lazy_import("penstock.definitions.outline.document")

__all__ = ["ChildReference", "StartNeeds", "start_needs"]


class ChildReference(msgspec.Struct, frozen=True):
    """A workflow that runs as a child: its newest version, or the version with this hash."""

    name: str
    version_pin: str | None = None


class StartNeeds(msgspec.Struct, frozen=True):
    """What one document requires; the needs of its children are in their own documents."""

    scopes: tuple[str, ...] = ()
    children: tuple[ChildReference, ...] = ()
    groups: tuple[str, ...] = ()
    """Groups whose members approve something in a run: keys with the scope `approve:GROUP`. Not needed to start."""


def start_needs(document: JsonObject) -> StartNeeds:
    """Return what a document requires, in either format. Never fails."""
    governance = document.get("governance")
    scopes = governance.get("scopes") if isinstance(governance, dict) else None
    named = tuple(scope for scope in scopes if isinstance(scope, str)) if isinstance(scopes, list) else ()
    children: dict[ChildReference, None] = {}
    groups: dict[str, None] = {}
    for node in outline.outline_of(document).nodes:
        for reference in outline.children_of(node):
            if isinstance(reference.name, str):
                children[ChildReference(reference.name, reference.version_pin)] = None
        approvers = node.fields.get("approvers") if outline.asks_somebody(node) else None
        group = approvers.get("group") if isinstance(approvers, dict) else None
        if isinstance(group, str):
            groups[group] = None
    return StartNeeds(tuple(dict.fromkeys(named)), tuple(children), tuple(groups))

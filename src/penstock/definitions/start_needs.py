"""What a workflow document requires of a caller who starts it: its scopes and rate, and its child workflows.

Above it: `operations.permissions.starting`, which decides. Below it: `outline.document`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.node_parts.approvers import approver_groups
from penstock.definitions.reached import LISTS, reached_by_node

if TYPE_CHECKING:
    from penstock.definitions.node_parts.kind import NodeKind
    from penstock.definitions.outline import document as outline
else:
    outline = lazy_import("penstock.definitions.outline.document")

__all__ = ["ChildReference", "StartNeeds", "StartRate", "start_needs", "start_rate"]


_CALLED = ("tool:", "query:", "upstream:")


class ChildReference(msgspec.Struct, frozen=True):
    """A workflow that runs as a child: its newest version, or the version with this hash."""

    name: str
    version_pin: str | None = None


class StartRate(msgspec.Struct, frozen=True):
    """How often a workflow may be started. Starts of all workflows that name the same bucket are counted together."""

    limit: int
    per_ms: int
    bucket: str


class StartNeeds(msgspec.Struct, frozen=True):
    """What one document requires; the needs of its children are in their own documents."""

    scopes: tuple[str, ...] = ()
    children: tuple[ChildReference, ...] = ()
    groups: tuple[str, ...] = ()
    """Groups whose members approve something in a run: keys with the scope `approve:GROUP`. Not needed to start."""
    rate: StartRate | None = None
    """How often it may be started; None means that only the callers' own limits apply."""
    governance: JsonObject = msgspec.field(default_factory=dict)
    """The whole block, for what decides whether a start has to wait."""
    calls: tuple[str, ...] = ()
    """Registered and imported tools and stored queries that its nodes call. Not those that a model may choose from."""


def start_needs(document: JsonObject) -> StartNeeds:
    """Return what a document requires, in either format. Never fails."""
    governance = document.get("governance")
    scopes = governance.get("scopes") if isinstance(governance, dict) else None
    named = tuple(scope for scope in scopes if isinstance(scope, str)) if isinstance(scopes, list) else ()
    children: dict[ChildReference, None] = {}
    groups: dict[str, None] = {}
    calls: dict[str, None] = {}
    native = outline.is_native(document)
    for node in outline.nodes_of_kinds(document, _says_needs):
        for reference in outline.children_of(node):
            if isinstance(reference.name, str):
                children[ChildReference(reference.name, reference.version_pin)] = None
        if node.fields.get("tool") not in LISTS:
            named_here = (item.name for item in reached_by_node(node.type, node.fields, native=native))
            calls.update(dict.fromkeys(name for name in named_here if name.startswith(_CALLED)))
        approvers = node.fields.get("approvers") if outline.asks_somebody(node) else None
        if isinstance(approvers, dict):
            groups.update(dict.fromkeys(approver_groups(approvers)))
    return StartNeeds(
        tuple(dict.fromkeys(named)),
        tuple(children),
        tuple(groups),
        start_rate(document),
        governance if isinstance(governance, dict) else {},
        tuple(calls),
    )


def _says_needs(kind: NodeKind) -> bool:
    """Whether nodes of a kind run children, call something or ask somebody."""
    return kind.references is not None or kind.activity is not None or bool(kind.answer_fields)


def start_rate(document: JsonObject) -> StartRate | None:
    """Return how often a document may be started.

    Never fails: a rate that `checks.governance` refuses counts as missing.
    """
    governance = document.get("governance")
    declared = governance.get("rate") if isinstance(governance, dict) else None
    if not isinstance(declared, dict):
        return None
    limit, per, bucket = declared.get("limit"), declared.get("per"), declared.get("bucket")
    per_ms = parse_native_duration_ms(per) if isinstance(per, str | int) else None
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1 or not per_ms:
        return None
    # A name that an author chose never equals that of a workflow's own bucket.
    return StartRate(
        limit, per_ms, f"bucket:{bucket}" if isinstance(bucket, str) else f"workflow:{document.get('name')}"
    )

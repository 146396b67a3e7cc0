"""Compares two versions of a workflow: what changed, whom it breaks, and whether runs in flight could be moved.

It works on outlines, so that a published document and its native equivalent compare by meaning, and agents are compared
as what they stand for. Documents need not be valid: parts that cannot be understood are compared as written, or not at
all.

Above it: `penstock workflow diff` and the operations that publish new versions. Below it: `contract` (what callers see)
and `nodes` (what runs walk). It does not read files and does not decide whether a change may be published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.base.json import JsonObject
from penstock.definitions.agents.expansion import expanded, source_path
from penstock.definitions.diff.contract import compare_contract
from penstock.definitions.diff.error_routes import compare_error_routes
from penstock.definitions.diff.model import Change, ChangeKind, InFlight, Subject, WorkflowDiff
from penstock.definitions.diff.nodes import compare_nodes
from penstock.definitions.outline.document import outline_of
from penstock.definitions.outline.placement import placement_of

__all__ = ["Change", "ChangeKind", "InFlight", "Subject", "WorkflowDiff", "diff_documents"]


def diff_documents(before: JsonObject, after: JsonObject) -> WorkflowDiff:
    """Compare two documents of either format. Never fails."""
    found = _changes(expanded(before), expanded(after))
    return WorkflowDiff.of(replace(change, path=_place(before, after, change)) for change in found)


def _place(before: JsonObject, after: JsonObject, change: Change) -> str:
    return source_path(before if change.kind is ChangeKind.REMOVED else after, change.path)


def _changes(before: JsonObject, after: JsonObject) -> Iterator[Change]:
    outlines = outline_of(before), outline_of(after)
    yield from compare_contract(before, after, outlines)
    yield from compare_nodes(placement_of(outlines[0]), placement_of(outlines[1]))
    yield from compare_error_routes(before.get("on_error"), after.get("on_error"), "/on_error", "the workflow")

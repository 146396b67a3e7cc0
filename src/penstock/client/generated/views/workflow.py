"""What operations on workflow answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "AuthorView",
    "Bundle",
    "Difference",
    "Drawing",
    "DrawnNode",
    "DrawnRoute",
    "FindingView",
    "Imported",
    "ProposalView",
    "SignatureView",
    "SimulatedRun",
    "TestReport",
    "TestedCase",
    "Validation",
    "WorkflowPage",
    "WorkflowSummary",
    "WorkflowView",
]


class AuthorView(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a version, and whether it takes effect."""

    principal: str
    kind: str
    status: str
    by_model: bool = False
    accepted_by: list[str] = msgspec.field(default_factory=list)
    draft_id: str | None = None
    look: str | None = None


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Documents to be taken to another server."""

    workflows: list[dict[str, Any]]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two versions, whom it breaks, and whether runs in flight could be moved."""

    same: bool
    breaking_for_callers: bool
    safe_for_runs_in_flight: bool
    changes: list[dict[str, Any]]


class DrawnRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A way on from a node."""

    kind: str
    target: str | None
    target_position: int | None
    label: str


class DrawnNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a workflow, as the picture shows it."""

    id: str
    type: str
    inside: str | None
    routes: list[DrawnRoute]


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as a picture, and the same in words."""

    hash: str
    svg: str | None
    nodes: list[DrawnNode]
    nodes_total: int


class FindingView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a document, and where."""

    code: str
    severity: str
    message: str
    path: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did, by name."""

    imported: list[str]
    overwritten: list[str]
    skipped: list[str]


class ProposalView(msgspec.Struct, frozen=True, kw_only=True):
    """A held call that stores a version once a person accepts it."""

    draft_id: str
    operation: str
    name: str | None
    proposed_by: str | None
    proposed_at: str | None
    look: str


class SignatureView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a workflow is signed with a trusted key."""

    verified: bool
    key_id: str | None = None
    code: str | None = None
    message: str | None = None


class SimulatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do, as far as it can be known without calling anything."""

    hash: str
    status: str
    path: list[str]
    result: Any
    error: dict[str, Any] | None
    waiting_for: list[dict[str, Any]]


class TestedCase(msgspec.Struct, frozen=True, kw_only=True):
    """How a test case came out."""

    name: str
    outcome: str
    differences: list[dict[str, Any]]
    unused: list[str]


class TestReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the test cases of a document came out."""

    hash: str
    passed: bool
    cases: list[TestedCase]


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of a document found."""

    valid: bool
    findings: list[FindingView]
    hash: str | None


class WorkflowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    id: str
    version: str
    hash: str
    title: str | None
    description: str | None
    created_at: str | None
    author: AuthorView | None = None


class WorkflowPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of workflows."""

    items: list[WorkflowSummary]
    next_cursor: str | None
    proposals: list[ProposalView] = msgspec.field(default_factory=list)


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as it is now."""

    id: str
    version: str
    hash: str
    title: str | None
    description: str | None
    created_at: str | None
    created_by: str | None
    document: dict[str, Any]
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    author: AuthorView | None = None
    signature: SignatureView | None = None
    warnings: list[FindingView] | None = None

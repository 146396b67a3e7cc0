"""What operations on draft answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.execution import ErrorView, QuestionView

__all__ = ["DraftPage", "DraftReview", "DraftView", "ReachedChange"]


class DraftView(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits, or waited, for approval."""

    id: str
    status: str
    operation: str
    title: str
    arguments: dict[str, Any]
    digest: str
    schema_version: str
    state_witness: Any
    policy_version: str | None
    risk: str
    reason: str
    denied_code: str | None
    justification: str | None
    requested_by: str
    principal_kind: str
    created_at: str | None
    updated_at: str | None
    expires_at: str | None
    execution_id: str
    approvers: Any = None
    votes: list[dict[str, Any]] = msgspec.field(default_factory=list)
    escalations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    question: QuestionView | None = None
    result: Any = None
    error: ErrorView | None = None
    made_by_execution: str | None = None
    made_by_node: str | None = None
    requester_name: str = ""
    acting_for: list[str] = msgspec.field(default_factory=list)
    acting_for_names: list[str] = msgspec.field(default_factory=list)
    surface: str = ""
    decidable: bool = False
    why_not: str | None = None


class DraftPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of drafts, newest first."""

    items: list[DraftView]
    next_cursor: str | None


class ReachedChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a call can reach and that is not as it was when the call was proposed."""

    name: str
    before: str | None
    now: str | None


class DraftReview(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of a draft with the current state."""

    draft_id: str
    operation: str
    changed: list[str]
    state_witness: Any
    impact: dict[str, Any]
    problem: ErrorView | None = None
    reached: list[ReachedChange] = msgspec.field(default_factory=list)

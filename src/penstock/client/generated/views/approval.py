"""What operations on approval answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.draft import DraftView
from penstock.client.generated.views.execution import DecisionView, QuestionView

__all__ = ["ApprovalPage", "DecidedApproval", "DecidedPage", "WaitingApproval"]


class WaitingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a decision."""

    kind: str
    id: str
    title: str
    workflow_id: str | None
    asked_by: str | None
    asked_by_name: str
    created_at: str | None
    expires_at: str | None
    approvers: Any
    decidable: bool
    why_not: str | None
    question: QuestionView
    draft: DraftView | None = None


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what waits, newest first. It may have fewer than `limit`, and even none, while others follow."""

    items: list[WaitingApproval]
    next_cursor: str | None


class DecidedApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was approved or declined."""

    kind: str
    id: str
    title: str
    decision: DecisionView
    status: str | None


class DecidedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, newest first. It may have fewer than `limit`, and even none, while others follow."""

    items: list[DecidedApproval]
    next_cursor: str | None

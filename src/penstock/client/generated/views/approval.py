"""What operations on approval answer with. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client.generated.views.draft import DraftView
from penstock.client.generated.views.execution import QuestionView

__all__ = ["ApprovalPage", "WaitingApproval"]


class WaitingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a decision."""

    kind: str
    id: str
    title: str
    workflow_id: str | None
    asked_by: str | None
    created_at: str | None
    expires_at: str | None
    approvers: Any
    decidable: bool
    question: QuestionView
    draft: DraftView | None = None


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what waits, newest first. It may have fewer than `limit`, and even none, while others follow."""

    items: list[WaitingApproval]
    next_cursor: str | None

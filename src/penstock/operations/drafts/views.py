"""Drafts as callers see them: the run of a held call, told in the words of drafts.

Above it: the operations on drafts, surfaces. Below it: `runs.held_calls`, the state of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock.base.ids import id_for_callers
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.engine.transitions import RunStatus
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context
from penstock.operations.permissions.deciding import WhyNot
from penstock.operations.permissions.people import names_of
from penstock.operations.runs.held_calls import HeldCall
from penstock.operations.runs.views import ErrorView, error_of
from penstock.operations.runs.waits import QuestionView, question_views

__all__ = [
    "DRAFT_STATUSES",
    "DraftPage",
    "DraftStatus",
    "DraftView",
    "draft_status",
    "draft_view",
    "with_names_of_others",
]

DraftStatus: TypeAlias = Literal[
    "waiting", "approved", "executed", "rejected", "canceled", "expired", "drifted", "failed", "ambiguous"
]
DRAFT_STATUSES: dict[DraftStatus, str] = {
    "waiting": "It waits for approval.",
    "approved": "It was approved and is being made.",
    "executed": "It was made.",
    "rejected": "An approver said no.",
    "canceled": "It was withdrawn.",
    "expired": "Nobody approved it in time.",
    "drifted": "What it would do had changed when it was to be made; it was not made.",
    "failed": "It was approved and refused, or failed, when it was to be made.",
    "ambiguous": "Nobody knows whether it was made; a person finds out and settles it.",
}
_BY_CODE: dict[str, DraftStatus] = {
    "DRAFT_REJECTED": "rejected",
    "DRAFT_EXPIRED": "expired",
    "APPROVAL_EXPIRED": "expired",
    "DRAFT_DRIFTED": "drifted",
}


class DraftView(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits, or waited, for approval."""

    id: str
    status: DraftStatus
    operation: str
    title: str
    arguments: dict[str, Any]
    """As they were sent; secret parts are masked."""
    digest: str
    """What an approval is bound to: SHA-256 of the RFC 8785 form of the whole call."""
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
    """The run that holds it; the same as `id`."""
    approvers: Any = None
    votes: list[dict[str, Any]] = []
    escalations: list[dict[str, Any]] = []
    """When it was escalated, and who could decide from then on; in draft.get only."""
    question: QuestionView | None = None
    result: Any = None
    error: ErrorView | None = None
    made_by_execution: str | None = None
    """The run whose node made the call and waits for it, if one did."""
    made_by_node: str | None = None
    """That node."""
    requester_name: str = ""
    """The name of the caller who proposed it."""
    acting_for: list[str] = []
    """On whose behalf they asked: the nearest first, then on whose behalf that one acted, and so on."""
    acting_for_names: list[str] = []
    """What those are called, in the same order; of draft.list, draft.get and approval.list only."""
    surface: str = ""
    """Where they asked."""
    decidable: bool = False
    """Whether you may approve or reject it now; of draft.list and draft.get only."""
    why_not: WhyNot | None = None
    """If it waits, why you cannot: you lack the scope, are a program, are not named, asked for it, or have approved it.
    """


class DraftPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of drafts, newest first."""

    items: list[DraftView]
    next_cursor: str | None


async def with_names_of_others(context: Context, views: Sequence[DraftView]) -> list[DraftView]:
    """Return held calls with what those are called for whom somebody asked."""
    names = await names_of(context, (principal for view in views for principal in view.acting_for))
    return [replace(view, acting_for_names=[names[principal] for principal in view.acting_for]) for view in views]


def draft_status(state: RunState) -> DraftStatus:
    """Return how a held call stands."""
    match state.status:
        case RunStatus.COMPLETED:
            return "executed"
        case RunStatus.CANCELLED:
            return "canceled"
        case RunStatus.FAILED:
            error = error_of(state)
            return _BY_CODE.get(error.code if error is not None else "", "failed")
        case _:
            if run_status(state) == "waiting_decision":
                return "ambiguous"
            return "waiting" if question_views(state) else "approved"


def draft_view(tenant: str, state: RunState, held: HeldCall, votes: list[dict[str, Any]] | None = None) -> DraftView:
    """Return the view of a held call. `votes` are those of its history; without them, those of its open question."""
    public, questions = id_for_callers(tenant, state.run_id), question_views(state)
    question = questions[0] if questions else None
    return DraftView(
        id=public,
        status=draft_status(state),
        operation=held.operation,
        title=held.title,
        arguments=held.arguments,
        digest=held.digest,
        schema_version=held.schema_version,
        state_witness=held.state_witness,
        policy_version=held.policy_version,
        risk=held.risk,
        reason=held.reason,
        denied_code=held.denied_code,
        justification=held.justification,
        requested_by=held.principal.id,
        principal_kind=held.principal.kind,
        created_at=instant(state.started_at),
        updated_at=instant(state.updated_at),
        expires_at=instant(held.expires_at),
        execution_id=public,
        approvers=question.approvers if question is not None else None,
        votes=votes if votes is not None else question.votes if question is not None else [],
        question=question,
        result=state.result if state.status is RunStatus.COMPLETED else None,
        error=error_of(state),
        made_by_execution=None if held.visit is None else id_for_callers(tenant, held.visit.run_id),
        made_by_node=None if held.visit is None else held.visit.node_id,
        requester_name=held.principal.name,
        acting_for=held.principal.acting_for,
        surface=held.surface,
    )

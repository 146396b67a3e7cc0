"""`approval.list`: everything that waits for somebody's decision, in one list: held calls and questions of workflows.

Every surface reads this list: REST, MCP, the command line and the console. Who may decide is said by the rule that
takes the vote.

Above it: the catalogue. Below it: `views`, `runs.held_calls`, `permissions.deciding`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.ids import id_for_callers
from penstock.base.scopes import scope_allows
from penstock.engine.state import RunState
from penstock.engine.walk.questions import open_questions
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.drafts.views import DraftView, draft_view, with_names_of_others
from penstock.operations.gate.context import Context
from penstock.operations.permissions.deciding import ANSWER_SCOPE, APPROVE_SCOPE, WhyNot, why_not_decide
from penstock.operations.permissions.people import names_of
from penstock.operations.runs.held_access import may_see_held
from penstock.operations.runs.held_calls import HELD_LABEL, held_call_of
from penstock.operations.runs.waits import QuestionView, question_views
from penstock.runtime.ports.runs import RunQuery, RunRow

__all__ = ["OPERATIONS", "ApprovalPage", "WaitingApproval"]

_READ_RUNS = "execution:read"
_WAITING = ("waiting_approval", "waiting_input")


class ListApprovals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of them."""

    mine: Annotated[bool, Meta(description="Only those that you may decide now.")] = False
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class WaitingApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a decision."""

    kind: Literal["call", "question"]
    """A held call (draft.approve, draft.reject), or a question of a workflow (execution.answer)."""
    id: str
    """The draft of a held call, or the run that asks."""
    title: str
    workflow_id: str | None
    """The workflow that asks; null for a held call."""
    asked_by: str | None
    """Who made the call, or started the run."""
    asked_by_name: str
    """What they are called."""
    created_at: str | None
    expires_at: str | None
    approvers: Any
    """Who may decide; null if anybody may who can answer questions."""
    decidable: bool
    """Whether you may decide it now."""
    why_not: WhyNot | None
    """Why you cannot decide it: you lack the scope, are a program, are not named, asked for it, or have approved it."""
    question: QuestionView
    """What is asked, and which answers approve and decline it."""
    draft: DraftView | None = None
    """The held call."""


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what waits, newest first. It may have fewer than `limit`, and even none, while others follow."""

    items: list[WaitingApproval]
    next_cursor: str | None


@operation(
    "approval.list",
    route=Route(method="GET", path="/approvals", query=("mine", "limit", "cursor")),
    scopes=("draft:read",),
    reads=True,
    examples=(Example(arguments={"mine": True}),),
)
async def approval_list(context: Context, given: ListApprovals) -> ApprovalPage:
    """List what waits for a decision.

    Each entry says who asked, who may decide, until when, and whether you may. Use it to find calls and questions that
    wait for you. Questions of workflows are included if you may read runs; `prompt` is null where a policy hides fields
    of the workflow from you.
    """
    query = RunQuery(statuses=_WAITING, limit=given.limit, cursor=given.cursor, tenant=context.tenant)
    page = await context.services.store.list_runs(query)
    items = [item for row in page.rows for item in await _list_questions(context, row)]
    shown = [item for item in items if item.decidable] if given.mine else items
    names = await names_of(context, (item.asked_by for item in shown if not item.asked_by_name))
    named = [replace(item, asked_by_name=item.asked_by_name or names.get(item.asked_by or "", "")) for item in shown]
    drafts = {draft.id: draft for draft in await with_names_of_others(context, [i.draft for i in named if i.draft])}
    items = [replace(item, draft=drafts[item.id]) if item.draft is not None else item for item in named]
    return ApprovalPage(items=items, next_cursor=page.next_cursor)


async def _list_questions(context: Context, row: RunRow) -> list[WaitingApproval]:
    """Return what waits in a run, as far as the caller may know of it."""
    state = await context.services.host.read(row.run_id)
    if state is None:
        return []
    if HELD_LABEL in row.labels:
        return _held(context, state)
    if not scope_allows(context.principal.scopes, _READ_RUNS):
        return []
    public = id_for_callers(context.tenant, state.run_id)
    found = []
    for asked, view in zip(open_questions(state), question_views(state), strict=True):
        if asked.ask is not None:
            continue  # for the program that started the run, not for people
        why_not = why_not_decide(context, state, asked, ANSWER_SCOPE)
        found.append(
            WaitingApproval(
                kind="question",
                id=public,
                title=row.workflow_name,
                workflow_id=row.workflow_name,
                asked_by=row.started_by,
                asked_by_name="",
                created_at=instant(row.created_at),
                expires_at=view.expires_at,
                approvers=view.approvers,
                decidable=why_not is None,
                why_not=why_not,
                question=view,
            )
        )
    return found


def _held(context: Context, state: RunState) -> list[WaitingApproval]:
    held, questions, asked = held_call_of(state), question_views(state), open_questions(state)
    if held is None or not questions or not may_see_held(context.principal, held):
        return []
    why_not = why_not_decide(context, state, asked[0], APPROVE_SCOPE)
    view = draft_view(context.tenant, state, held)
    return [
        WaitingApproval(
            kind="call",
            id=view.id,
            title=held.title or held.operation,
            workflow_id=None,
            asked_by=held.principal.id,
            asked_by_name=held.principal.name,
            created_at=view.created_at,
            expires_at=view.expires_at,
            approvers=view.approvers,
            decidable=why_not is None,
            why_not=why_not,
            question=questions[0],
            draft=replace(view, decidable=why_not is None, why_not=why_not),
        )
    ]


OPERATIONS: tuple[Capability, ...] = (approval_list,)

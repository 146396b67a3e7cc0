"""Operations on drafts: list, get, approve, reject, cancel, commit, propose again.

A draft is the run of a held call, so each of these is a view of it, or one input to it. Who may approve is decided
where every answer is decided: by the engine, when it takes the vote.

Above it: the catalogue. Below it: `views`, `runs.held_calls`, the handle of a run in `runtime`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.ids import DEFAULT_TENANT, id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.records import commands, events
from penstock.engine.state import RunState
from penstock.engine.walk.questions import open_questions
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.drafts.making import WITHHELD, withheld_result
from penstock.operations.drafts.views import DraftPage, DraftView, draft_status, draft_view, with_names_of_others
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, Request, Services, WriteIntent
from penstock.operations.gate.outcomes import RefusedCall
from penstock.operations.permissions.answering import answerer_of
from penstock.operations.permissions.deciding import APPROVE_SCOPE, why_not_decide
from penstock.operations.permissions.people import names_of
from penstock.operations.runs.decisions import decisions_in, note_decision, with_names
from penstock.operations.runs.fields import AnyId, Wait
from penstock.operations.runs.handles import seconds_to_wait
from penstock.operations.runs.held_access import may_see_held, withdrawal_refusal
from penstock.operations.runs.held_calls import (
    HELD_LABEL,
    HELD_MARK,
    HeldCall,
    approval_id,
    held_call_of,
    held_name,
    opened_arguments,
)
from penstock.operations.runs.waits import question_views
from penstock.runtime.ports.runs import RunQuery, RunRow

__all__ = ["EXAMPLE_ID", "OPERATIONS", "DraftId", "OneDraft", "found_draft"]

_SEEN = "DRAFT_NOT_FOUND"
EXAMPLE_ID = "r_01KA4T8R9B6S3VQ2XHJ7M5N0PE"
DraftId = Annotated[AnyId, Meta(description="The id of the draft.", examples=[EXAMPLE_ID])]
Note = Annotated[
    Annotated[str, Meta(max_length=1_000)] | None, Meta(description="What you say about it; kept in the history.")
]
Digest = Annotated[
    Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None,
    Meta(description="The digest of the draft that you looked at; refused if the draft has another one."),
]


class ListDrafts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which drafts."""

    operation: Annotated[
        Annotated[str, Meta(max_length=300)] | None, Meta(description="Only calls of this operation.")
    ] = None
    status: Annotated[
        Literal["open", "ended"] | None, Meta(description="Only those that are not decided yet, or only the others.")
    ] = None
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class OneDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which draft."""

    draft_id: DraftId


class DecideDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which draft, as you saw it, and what you say about it."""

    draft_id: DraftId
    digest: Digest = None
    note: Note = None
    wait_seconds: Wait = None


class CancelDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which draft, and why."""

    draft_id: DraftId
    reason: Annotated[Annotated[str, Meta(max_length=1_000)] | None, Meta(description="Why, for the history.")] = None


async def _draft_row(services: Services, tenant: str, draft_id: str) -> RunRow | None:
    row = await services.store.row(id_in_tenant(tenant, draft_id))
    if row is None and tenant != DEFAULT_TENANT:
        row = await services.store.row(draft_id)
    return row


async def found_draft(context: Context, draft_id: str) -> tuple[RunRow, RunState, HeldCall]:
    """Return a draft of the caller's tenant; raise NotFound if it does not exist."""
    services, tenant, state = context.services, context.tenant, None
    row = await _draft_row(services, tenant, draft_id)
    if row is not None and row.tenant == tenant and HELD_LABEL in row.labels:
        state = await services.host.read(row.run_id)
    held = None if state is None else held_call_of(state)
    if row is None or state is None or held is None or not may_see_held(context.principal, held):
        raise NotFound(_SEEN, f"there is no draft {draft_id[:200]}", "list the drafts with draft.list")
    return row, state, held


@operation(
    "draft.list",
    route=Route(method="GET", path="/drafts", query=("operation", "status", "limit", "cursor")),
    scopes=("draft:read",),
    reads=True,
)
async def draft_list(context: Context, given: ListDrafts) -> DraftPage:
    """List calls that wait for approval, newest first.

    Each entry says who proposed what, why it waits, until when, and what the result was.
    """
    statuses: tuple[str, ...] = ()
    if given.status == "open":
        statuses = ("waiting_approval", "waiting_input", "waiting_activity", "waiting_decision", "running", "paused")
    elif given.status == "ended":
        statuses = ("completed", "failed", "cancelled")
    query = RunQuery(
        statuses=statuses,
        workflow_name=None if given.operation is None else held_name(given.operation),
        label=(HELD_LABEL, HELD_MARK),
        limit=given.limit,
        cursor=given.cursor,
        tenant=context.tenant,
    )
    page = await context.services.store.list_runs(query)
    items = []
    for row in page.rows:
        state = await context.services.host.read(row.run_id)
        held = None if state is None else held_call_of(state)
        if state is not None and held is not None and may_see_held(context.principal, held):
            items.append(_seen(context, state, draft_view(context.tenant, state, held)))
    return DraftPage(items=await with_names_of_others(context, items), next_cursor=page.next_cursor)


@operation(
    "draft.get",
    route=Route(method="GET", path="/drafts/{draft_id}"),
    scopes=("draft:read",),
    reads=True,
    subject="draft_id",
    errors=(_SEEN,),
)
async def draft_get(context: Context, given: OneDraft) -> DraftView:
    """Get a call that waits, or waited, for approval.

    Returns the whole call, its digest, who may approve it, and its result. An answer with a secret is shown only to the
    caller who proposed it, for one day.
    """
    row, state, held = await found_draft(context, given.draft_id)
    votes: list[dict[str, Any]] = []
    escalations: list[dict[str, Any]] = []
    for record in await context.services.host.history(row.run_id):
        body = record.body_as(commands.ResumeInterrupt) or record.body_as(events.InterruptVoted)
        if body is not None:
            name = (body.approver or {}).get("name")
            told = {"by": body.answered_by, "name": name, "at": instant(record.at)}
            final = isinstance(body, commands.ResumeInterrupt)
            votes.append({**told, "answer": body.answer, "note": body.note, "final": final})
        asked = record.body_as(events.InterruptEscalated)
        if asked is not None:
            escalations.append({"at": instant(record.at), "approvers": asked.approvers})
    names = await names_of(context, (vote["by"] for vote in votes))
    votes = [{**vote, "name": vote["name"] or names.get(vote["by"] or "", "")} for vote in votes]
    view = msgspec.structs.replace(draft_view(context.tenant, state, held, votes), escalations=escalations)
    if view.result == WITHHELD and context.principal.id == held.principal.id:
        kept = await withheld_result(context, row.run_id, held)
        view = view if kept is None else msgspec.structs.replace(view, result=kept)
    (named,) = await with_names_of_others(context, [view])
    return _seen(context, state, named)


def _seen(context: Context, state: RunState, view: DraftView) -> DraftView:
    """Return a draft with whether its caller may decide about it now."""
    asked = open_questions(state)
    if view.status != "waiting" or not asked:
        return view
    why_not = why_not_decide(context, state, asked[0], APPROVE_SCOPE)
    return msgspec.structs.replace(view, decidable=why_not is None, why_not=why_not)


def _outcome(tenant: str, draft_id: str, state: RunState, held: HeldCall) -> DraftView:
    """Return the result of an approval; raise `Conflict` if the call could not be made any more."""
    if draft_status(state) == "drifted":
        message = "what the call would do has changed since it was proposed, so it was not made"
        raise Conflict("DRAFT_DRIFTED", message, "propose it again with draft.propose", {"draft_id": draft_id})
    return draft_view(tenant, state, held)


async def _follow(services: Services, request: Request, answer: JsonObject) -> JsonValue:
    """Return the result of an approval, for a repeated call whose first answer came before the call was made."""
    tenant = request.principal.tenant
    if answer["status"] != "approved" or (row := await _draft_row(services, tenant, str(answer["id"]))) is None:
        return answer
    asked = request.arguments.get("wait_seconds")
    longest = services.limits.sync_wait_max_seconds
    seconds = min(asked, longest) if isinstance(asked, int | float) else services.limits.sync_wait_seconds
    await services.host.wait_for_end(row.run_id, timeout_seconds=seconds)
    state = await services.host.read(row.run_id)
    held = None if state is None else held_call_of(state)
    if state is None or held is None:
        return answer
    found: JsonValue = msgspec.to_builtins(_outcome(tenant, str(answer["id"]), state, held))
    return found


@operation(
    "draft.approve",
    route=Route(method="POST", path="/drafts/{draft_id}/approve"),
    scopes=("draft:approve",),
    holdable=False,
    follow=_follow,
    subject="draft_id",
    errors=(
        _SEEN,
        "APPROVER_REQUIRED",
        "DIGEST_MISMATCH",
        "DRAFT_DRIFTED",
        "DRAFT_FINAL",
        "PERSON_REQUIRED",
    ),
    examples=(Example(arguments={"draft_id": EXAMPLE_ID, "note": "checked with finance"}),),
)
async def draft_approve(context: Context, given: DecideDraft) -> Reply[DraftView]:
    """Approve a call that waits.

    When enough people have approved it, the call is made once, on behalf of the principal that proposed it. The answer
    has the result, if it is known in time. Models and agents cannot approve.
    """
    return await _decided(context, given, approved=True)


@operation(
    "draft.reject",
    route=Route(method="POST", path="/drafts/{draft_id}/reject"),
    scopes=("draft:approve",),
    holdable=False,
    follow=_follow,
    subject="draft_id",
    errors=(_SEEN, "APPROVER_REQUIRED", "DIGEST_MISMATCH", "DRAFT_FINAL", "PERSON_REQUIRED"),
    examples=(Example(arguments={"draft_id": EXAMPLE_ID, "note": "not this month"}),),
)
async def draft_reject(context: Context, given: DecideDraft) -> Reply[DraftView]:
    """Reject a call that waits.

    One approver who rejects it is enough: the call is not made.
    """
    return await _decided(context, given, approved=False)


async def _decided(context: Context, given: DecideDraft, *, approved: bool) -> Reply[DraftView]:
    row, state, held = await found_draft(context, given.draft_id)
    if given.digest is not None and given.digest != held.digest:
        message = "the draft does not have the digest that you sent"
        raise Rejected(
            "DIGEST_MISMATCH",
            message,
            "read the draft again with draft.get, and send its digest",
            {"digest": held.digest},
        )
    if draft_status(state) != "waiting":
        raise await _final(context, given.draft_id, state)
    context.call.note(
        outcome="approved" if approved else "rejected",
        run_id=given.draft_id,
        draft_id=given.draft_id,
        approval_id=approval_id(given.draft_id),
    )
    context.call.about(None, digest=held.digest)
    note_decision(context, state)
    run = context.run(row.run_id)
    # What came of the call is known later. Until then a repeated call gets this answer, and `_follow` goes on from it.
    idempotency.answered_by(
        context, lambda decision: Reply(value=draft_view(context.tenant, decision.state, held)), provisional=True
    )
    who = msgspec.structs.replace(answerer_of(context), note=given.note)
    try:
        asked = question_views(state)[0].interrupt_id
        await run.answer({"approved": approved}, interrupt_id=asked, by=context.principal.id, answerer=who)
    except PenstockError as error:
        if error.code != "INVALID_RESUME_PAYLOAD":
            raise
        raise await _final(context, given.draft_id, await run.state()) from None
    seconds = seconds_to_wait(context, given.wait_seconds)
    if draft_status(await run.state()) == "approved":
        await context.caller.while_connected(
            lambda: context.services.host.wait_for_end(row.run_id, timeout_seconds=seconds)
        )
    _, ended, _ = await found_draft(context, given.draft_id)
    return Reply(value=_outcome(context.tenant, given.draft_id, ended, held))


async def _final(context: Context, draft_id: str, state: RunState) -> Conflict:
    """Return the error of a draft that nobody decides any more, with who decided it."""
    status, history = draft_status(state), await context.services.host.history(state.run_id)
    decided = [item for item in await with_names(context, decisions_in(history)) if item.final and item.by]
    by = f": {decided[-1].decision} by {decided[-1].name}" if decided else ""
    message = f"the draft {draft_id} is {status} already{by}"
    return Conflict(
        "DRAFT_FINAL", message, "look at the draft with draft.get", {"draft_id": draft_id, "status": status}
    )


@operation(
    "draft.cancel",
    route=Route(method="POST", path="/drafts/{draft_id}/cancel"),
    scopes=("draft:write",),
    holdable=False,
    subject="draft_id",
    errors=(_SEEN, "DRAFT_FINAL", "DRAFT_NOT_YOURS"),
    examples=(Example(arguments={"draft_id": EXAMPLE_ID, "reason": "not needed any more"}),),
)
async def draft_cancel(context: Context, given: CancelDraft) -> Reply[DraftView]:
    """Withdraw a call that waits for approval.

    The caller who proposed it can withdraw it, and so can its approvers.
    """
    row, state, held = await found_draft(context, given.draft_id)
    if draft_status(state) != "waiting":
        raise await _final(context, given.draft_id, state)
    refusal = withdrawal_refusal(context, state, held)
    if refusal is not None:
        raise refusal
    context.call.note(run_id=given.draft_id, draft_id=given.draft_id)
    answer = idempotency.answered_by(
        context, lambda decision: Reply(value=draft_view(context.tenant, decision.state, held))
    )
    await context.run(row.run_id).cancel(given.reason)
    return answer.reply or Reply(value=draft_view(context.tenant, await context.run(row.run_id).state(), held))


class CommitDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which draft, exactly as you saw it."""

    draft_id: DraftId
    digest: Annotated[str, Meta(description="The digest of the draft that you looked at.", pattern="^[0-9a-f]{64}$")]
    note: Note = None
    wait_seconds: Wait = None


@operation(
    "draft.commit",
    route=Route(method="POST", path="/drafts/{draft_id}/commit"),
    scopes=("draft:write",),
    holdable=False,
    follow=_follow,
    subject="draft_id",
    errors=(
        _SEEN,
        "ALREADY_VOTED",
        "APPROVER_REQUIRED",
        "DIGEST_MISMATCH",
        "DRAFT_DRIFTED",
        "DRAFT_FINAL",
        "PERSON_REQUIRED",
    ),
    examples=(Example(arguments={"draft_id": EXAMPLE_ID, "digest": "0" * 64}),),
)
async def draft_commit(context: Context, given: CommitDraft) -> Reply[DraftView]:
    """Make a call that you have reviewed.

    For a draft that its caller asked for and that needs no other approval: the caller makes the call, and sends the
    digest of what they reviewed. For any other draft, it counts as an approval, if you may give one.
    """
    wanted = DecideDraft(draft_id=given.draft_id, digest=given.digest, note=given.note, wait_seconds=given.wait_seconds)
    return await _decided(context, wanted, approved=True)


@operation(
    "draft.propose",
    route=Route(method="POST", path="/drafts/{draft_id}/propose", status=202),
    scopes=("draft:write",),
    holdable=False,
    subject="draft_id",
    errors=(_SEEN, "DRAFT_NOT_FINAL", "DRAFT_NOT_YOURS"),
    examples=(Example(arguments={"draft_id": EXAMPLE_ID}),),
)
async def draft_propose(context: Context, given: OneDraft) -> Reply[DraftView]:
    """Propose a call again that was not made.

    For a draft that was rejected, has expired, or drifted. Its proposer makes the same call again, on the present
    state. The old draft stays as it is; the answer is the new one.
    """
    _, state, held = await found_draft(context, given.draft_id)
    status = draft_status(state)
    if status in ("waiting", "approved", "executed", "ambiguous"):
        message = f"the draft {given.draft_id} is {status}"
        raise Conflict(
            "DRAFT_NOT_FINAL", message, "propose a draft again only after it was rejected, or has expired or failed"
        )
    if context.principal.id != held.principal.id:
        message = f"the draft {given.draft_id} was proposed by somebody else"
        raise Denied("DRAFT_NOT_YOURS", message, "ask the proposer, or propose the call yourself with draft.propose")
    call = context.holds.call if context.holds is not None else None
    if call is None:
        raise Unavailable("NOT_CONFIGURED", "this process cannot make calls of drafts")
    request = msgspec.structs.replace(
        context.request,
        operation=held.operation,
        arguments=await opened_arguments(context.services, context.tenant, held),
        idempotency_key=None if context.request.idempotency_key is None else f"again-{context.request.idempotency_key}",
        intent=WriteIntent(wants_draft=True, justification=held.justification),
    )
    outcome = await call(request)
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    # If it was made before, the answer is the stored one.
    again = msgspec.to_builtins(outcome.reply.value)["held"]["draft_id"]
    _, proposed, fresh = await found_draft(context, again)
    context.call.note(draft_id=again)
    return Reply(value=draft_view(context.tenant, proposed, fresh), status=202, location=f"/drafts/{again}")


OPERATIONS: tuple[Capability, ...] = (
    draft_list,
    draft_get,
    draft_approve,
    draft_reject,
    draft_commit,
    draft_cancel,
    draft_propose,
)

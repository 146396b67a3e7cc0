"""The operation for approvers: what has changed since a call was proposed, and what it would do if it were made now.

The state, the version of what is called and the policies are compared with those that the draft was made with. An
approval is bound to them, so a draft that has changed cannot be made any more. Nothing is called, and secret arguments
stay masked.

Above it: the catalogue. Below it: `operations`, the capability that was called.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from penstock.base.errors import Conflict, NotFound, PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.approvals import value_digest
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.drafts.operations import EXAMPLE_ID, OneDraft, found_draft
from penstock.operations.drafts.views import draft_status
from penstock.operations.gate.context import Context
from penstock.operations.gate.holds import reach_in, reached_changes, state_of
from penstock.operations.runs.held_calls import HeldCall
from penstock.operations.runs.views import ErrorView

__all__ = ["OPERATIONS", "DraftReview"]

Changed: TypeAlias = Literal["state", "version", "policies"]


class ReachedChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a call can reach and that is not as it was when the call was proposed."""

    name: str
    """workflow:NAME, tool:ID, query:GRAPH/NAME, model:ID, agent:ID and the like."""
    before: str | None
    """Its version then; None if it did not exist, or the call could not reach it."""
    now: str | None
    """Its present version; None if it no longer exists, or if the call can no longer reach it."""


class DraftReview(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of a draft with the current state."""

    draft_id: str
    operation: str
    changed: list[Changed]
    """What is not as it was when the call was proposed; if anything is, it will not be made."""
    state_witness: Any
    """The present state, with everything that the call can reach."""
    impact: dict[str, Any]
    """What the call would do now: for a workflow a dry run, for a merge what differs, for a document what changes."""
    problem: ErrorView | None = None
    """Why it could not be made now, if that is known."""
    reached: list[ReachedChange] = []
    """What has changed of everything that the call can reach: workflows, tools, queries, models, agents."""


@operation(
    "draft.review",
    route=Route(method="GET", path="/drafts/{draft_id}/review"),
    scopes=("draft:read",),
    reads=True,
    subject="draft_id",
    errors=("DRAFT_NOT_FOUND", "DRAFT_FINAL"),
    examples=(Example(arguments={"draft_id": EXAMPLE_ID}),),
)
async def draft_review(context: Context, given: OneDraft) -> DraftReview:
    """Review a call that waits against the present state.

    Says what has changed since the call was proposed, and what the call would do now. Nothing is called.
    """
    _, state, held = await found_draft(context, given.draft_id)
    status = draft_status(state)
    if status != "waiting":
        message = f"the draft {given.draft_id} is {status} already"
        raise Conflict(
            "DRAFT_FINAL", message, "look at the draft with draft.get", {"draft_id": given.draft_id, "status": status}
        )
    try:
        called = await _called(context, held)
        witness, impact = await _looked_at(context, held, called)
    except PenstockError as error:
        problem = ErrorView(code=error.code, message=error.message)
        changed = await _policies_changed(context, held)
        return _review(given.draft_id, held, changed, None, {}, problem)
    changed = await _policies_changed(context, held)
    if called.schema_version != held.schema_version:
        changed = ["version", *changed]
    if (held.state_witness is None) != (witness is None) or (
        witness is not None and value_digest(witness) != value_digest(held.state_witness)
    ):
        changed = ["state", *changed]
    return _review(given.draft_id, held, changed, witness, impact, None)


def _review(  # the parts of one answer
    draft_id: str,
    held: HeldCall,
    changed: list[Changed],
    witness: JsonValue,
    impact: JsonObject,
    problem: ErrorView | None,
) -> DraftReview:
    return DraftReview(
        draft_id=draft_id,
        operation=held.operation,
        changed=changed,
        state_witness=witness,
        impact=impact,
        problem=problem,
        reached=_reached_changes(held.state_witness, witness) if problem is None else [],
    )


def _reached_changes(before: JsonValue, now: JsonValue) -> list[ReachedChange]:
    old, new = reach_in(before) or {}, reach_in(now) or {}
    return [
        ReachedChange(name=name, before=_version(old.get(name)), now=_version(new.get(name)))
        for name in reached_changes(old, new)
    ]


def _version(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


async def _called(context: Context, held: HeldCall) -> Capability:
    """Return what a held call calls, as it is now."""
    catalogue = context.services.catalogue
    known = None if catalogue is None else next((item for item in catalogue.all() if item.name == held.operation), None)
    if known is None and context.holds is not None and context.holds.find is not None:
        known = await context.holds.find(context.tenant, held.operation)
    if known is None:
        raise NotFound("OPERATION_NOT_FOUND", f"there is no {held.operation[:200]} any more")
    return known


async def _looked_at(context: Context, held: HeldCall, called: Capability) -> tuple[JsonValue, JsonObject]:
    """Return the state that a call would change, and what it would do, on behalf of its proposer."""
    principal = held.principal.principal(context.tenant)
    given = called.convert(held.arguments)
    request = msgspec.structs.replace(
        context.request, operation=held.operation, arguments=held.arguments, principal=principal, intent=None
    )
    asked = msgspec.structs.replace(context, principal=principal, request=request, capability=called, given=given)
    witness = await state_of(asked)
    impact = {} if called.impact is None else await called.impact(asked, given)
    return witness, impact


async def _policies_changed(context: Context, held: HeldCall) -> list[Changed]:
    stage = context.services.policies
    policies = None if stage is None else await stage.of(context.tenant)
    return [] if (None if policies is None else policies.version) == held.policy_version else ["policies"]


OPERATIONS: tuple[Capability, ...] = (draft_review,)

"""Policies of a workflow bind every way to start it, as its scopes do.

A call of the workflow as a tool is decided by the gate. Whatever else starts it is decided here, as the same action
(`workflow:NAME`) with the same arguments: `workflow.execute`, the control plane, forks, schedules, webhooks, and runs
that start it as a child. A schedule or a webhook acts for its maker, so the policies decide about the maker, who is
looked up each time; a run acts for its starter.

Above it: everything that starts runs. Below it: the gate's stage for policies, `permissions.makers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import msgspec

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import scope_allows
from penstock.definitions.start_needs import StartNeeds, start_needs
from penstock.governance.authorship import Author, acts_as_agent, agents_behind
from penstock.governance.holds import Approval
from penstock.governance.policy.outcomes import ApprovalRequired, Forbidden
from penstock.governance.policy.shapes import Unfit
from penstock.operations.catalogue.capability import Governance
from penstock.operations.gate.context import Context, Principal
from penstock.operations.gate.holds import HoldRequired, facts_of, is_approved, policy_approvals
from penstock.operations.gate.policies.history import give_back
from penstock.operations.gate.policy_check import policy_refusal, reasons_for_audit
from penstock.operations.gate.policy_stage import Counting, Decided, Standpoint, Target
from penstock.operations.permissions.makers import WEBHOOK, rights_of_maker
from penstock.operations.permissions.standing_authority import workflow_authority
from penstock.operations.permissions.starting import READ_SCOPE, needs_of, needs_to_start, unknown_workflow
from penstock.operations.permissions.weaker import agents_of_children
from penstock.operations.runs.actions.workflows import start_arguments, start_target
from penstock.operations.runs.tool_schemas import governance_of, object_at, strictest
from penstock.runtime.chains import TRUST_LABEL
from penstock.runtime.ports.runs import DefinitionRow

__all__ = [
    "TRUST_LABEL",
    "RunAction",
    "StartCounts",
    "refuse_by_policy",
    "run_denial",
    "start_denial",
    "starts_freely",
]


StartCounts: TypeAlias = Literal["now", "later", "earlier"]
"""When a start counts for policies: the call starts it, or only stores what will, or finds what it started before."""


async def refuse_by_policy(
    context: Context,
    name: str,
    document: JsonObject,
    given: JsonValue,
    *,
    maker: Principal | None = None,
    counts: StartCounts = "now",
) -> None:
    """Refuse to start a workflow with this input if the policies do not permit it. `maker` acts in place of a trigger.

    A call of the workflow's own tool was decided already.
    """
    refusal = await start_denial(context, name, document, given, maker=maker, counts=counts)
    if refusal is not None:
        raise refusal


def starts_freely(context: Context, row: DefinitionRow) -> bool:
    """Whether it is known without reading anything that nobody decides about a start, so that nothing denies it."""
    stage, request = context.services.policies, context.request
    if context.capability.populator != "builtin" or request.surface == "system":
        return True
    if context.services.holds.authorship.enforced and (
        acts_as_agent(row.author) or needs_of(context.services, row).children
    ):
        return False  # an agent may have written it, or one of its children
    return (stage is None or stage.has_none(context.tenant)) and not _may_hold(context, row.document)


async def start_denial(  # noqa: PLR0913  # what is started, by whom, for whom, and who wrote it
    context: Context,
    name: str,
    document: JsonObject,
    given: JsonValue,
    *,
    maker: Principal | None = None,
    counts: StartCounts = "now",
    author: Author | None = None,
) -> PenstockError | None:
    """Return why policies do not permit to start a workflow with this input; None if they do.

    Raise `HoldRequired` if the start has to wait for approval, by the policies or by what the document says of itself.
    `author` wrote the version: a start of what an agent wrote is decided as the call of an agent.
    """
    stage, request = context.services.policies, context.request
    if context.capability.populator != "builtin" or request.surface == "system":
        return None
    policies = None if stage is None or stage.has_none(context.tenant) else await stage.of(context.tenant)
    if stage is None or policies is None:
        await _hold(context, document, author=author)
        return None
    principal = maker or context.principal
    if request.surface == "webhook" and maker is None:
        services = context.services
        authority = await workflow_authority(
            services, await services.store.definitions.find_named(name, tenant=context.tenant)
        )
        principal = await rights_of_maker(services, principal.on_behalf_of, context.tenant, WEBHOOK, authority)
    target, arguments = start_target(name, document), start_arguments(document, given)
    is_counted = counts == "now" and not context.rehearses
    counting = Counting(context.call.uses if is_counted else None, was_made=counts == "earlier")
    try:
        history = await stage.history(policies, principal, target, arguments, counting)
        standpoint = replace(request.standpoint, history=history)
        decided = stage.decide_action(policies, principal, target, arguments, standpoint)
    except Unfit as error:
        decided = Decided(unfit=str(error), version=policies.version)
    context.call.note(reasons=reasons_for_audit(decided), policy_version=decided.version)
    if isinstance(decided.outcome, ApprovalRequired) and maker is None and not request.from_inside:
        if context.rehearses or is_approved(request, decided):
            return None
        if request.approval is None:
            await _hold(context, document, policy_approvals(decided), author=author)
    refusal = policy_refusal(f"starting {name}", context.principal, decided)
    if refusal is None:
        await _hold(context, document, author=author)
    else:  # some operations answer with a refused start instead of being refused
        await give_back(context.services.platform, context.call.uses)
    if refusal is not None and _hides(decided.outcome) and not scope_allows(context.principal.scopes, READ_SCOPE):
        return unknown_workflow(name)
    return refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAction:
    """What a run does by itself: it starts a child, or calls a tool."""

    target: Target
    arguments: JsonObject
    words: str
    """What it does, for the refusal."""
    run: str
    """The first run of its tree, for policies that count by run."""
    labels: Mapping[str, str]
    """The labels of the run: they tell whether a model began it."""
    was_made: bool = False
    """Whether it continues an earlier count."""


async def run_denial(context: Context, principal: Principal, action: RunAction) -> PenstockError | None:
    """Return why policies do not permit what a run does, for the principal of the run; None if they do.

    A run that has begun does not wait for approval, so what needs approval is refused.
    """
    stage = context.services.policies
    policies = await stage.of(context.tenant) if stage is not None else None
    if stage is None or policies is None:
        return None
    target, given = action.target, action.arguments
    standpoint = Standpoint(surface="run", from_model=TRUST_LABEL in action.labels)
    counting = Counting(context.call.uses, action.run, was_made=action.was_made)
    try:
        history = await stage.history(policies, principal, target, given, counting)
        decided = stage.decide_action(policies, principal, target, given, replace(standpoint, history=history))
    except Unfit as error:
        decided = Decided(unfit=str(error), version=policies.version)
    context.call.note(reasons=reasons_for_audit(decided), policy_version=decided.version)
    return policy_refusal(action.words, principal, decided)


def _may_hold(context: Context, document: JsonObject, asked: tuple[Approval, ...] = ()) -> bool:
    """Whether a start may have to wait. Nearly none: only an agent's can, or one that always does."""
    request = context.request
    if request.approval is not None or request.from_inside or context.holds is None:
        return False
    return bool(asked) or request.by_agent or "draft" in object_at(document, "governance")


async def _hold(
    context: Context, document: JsonObject, asked: tuple[Approval, ...] = (), *, author: Author | None = None
) -> None:
    """Hold the call that would start a workflow, if its document, or a policy (`asked`), says that it waits.

    Nothing was changed yet. A call that was approved is the whole call, with what it starts.
    """
    request = context.request
    if context.holds is None or request.approval is not None or request.from_inside:
        return
    authors = await _authors(context, document, author)
    by_agent = request.by_agent or bool(authors)
    if not by_agent and not _may_hold(context, document, asked):
        return
    declared = object_at(document, "governance")
    governance = governance_of(declared, context.capability.governance.scopes)
    if by_agent:
        needs = await needs_to_start(context.services, context.tenant, [start_needs(document)])
        governance = strictest(governance, (item.governance for item in needs))
        governance = strictest(governance, await _called(context, needs))
    governance = msgspec.structs.replace(governance, authors=authors)
    hold = await context.holds.hold_of(context, facts_of(request, governance), asked)
    if hold is not None:
        raise HoldRequired(hold, governance)


async def _called(context: Context, needs: Iterable[StartNeeds]) -> list[Governance]:
    """Return what the tools and queries need that nodes call; what does not exist is reported by the run."""
    find = None if context.holds is None else context.holds.find
    names = dict.fromkeys(name for item in needs for name in item.calls)
    found = [] if find is None else [await find(context.tenant, name) for name in names]
    return [item.governance for item in found if item is not None]


async def _authors(context: Context, document: JsonObject, author: Author | None) -> tuple[str, ...]:
    """Return the agents that wrote a version, or one of its children: the weaker of starter and author decides."""
    services = context.services
    if not services.holds.authorship.enforced:
        return ()
    return (*agents_behind(author), *await agents_of_children(services, context.tenant, start_needs(document)))


def _hides(outcome: object) -> bool:
    return isinstance(outcome, Forbidden) and not outcome.failed

"""Decides about a call by policies, and says what its caller hears if they decide against it.

Built-in operations are known to everybody, so their refusal says that a policy decided. What a tenant defines and a
caller may not use at all looks unknown. Only callers who may read policies learn which policy it was, and why.

Above it: `pipeline`, `permissions.starting`. Below it: `governance.policy.outcomes`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from penstock.base.errors import Denied
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import scope_allows
from penstock.governance.policy.outcomes import ApprovalRequired, Forbidden, Permitted, PolicyOutcome
from penstock.governance.policy.sets import PolicySet
from penstock.governance.policy.shapes import Unfit
from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.context import Request, Services
from penstock.operations.gate.idempotency import IdempotentCalls
from penstock.operations.gate.policies.history import run_tree_of
from penstock.operations.gate.policy_stage import Counting, Decided, target_of
from penstock.runtime.ports.platform import CallRecord

__all__ = ["READ_POLICIES", "decide_call", "policy_refusal", "reasons_for_audit"]

_LOGGER = logging.getLogger("penstock.policy")
READ_POLICIES = "policy:read"
"""The scope that lets a caller know which policies decide."""


async def decide_call(
    request: Request, capability: Capability, services: Services, call: CallRecord, idempotency: IdempotentCalls
) -> Decided | None:
    """Decide about a call, and note the decision for its audit record; None if there are no policies.

    The repetition of a call that has its answer, or still runs, is not counted, and no limit refuses it.
    """
    stage = services.policies
    if stage is None or request.from_inside:
        return None
    principal = request.principal
    known = stage.at_hand(principal.tenant)
    policies = known[0] if known is not None else await stage.of(principal.tenant)
    if policies is None:
        return None
    standpoint = request.standpoint
    try:
        if policies.counters and await idempotency.knows(services, capability, request):
            standpoint = replace(standpoint, repeats=True)
        elif policies.counters:
            history = await _history(request, capability, services, policies, call)
            standpoint = replace(standpoint, history=history)
        decided = stage.decide(policies, principal, capability, request.arguments, standpoint)
    except Unfit as error:
        decided = Decided(unfit=str(error), version=policies.version)
    call.note(reasons=reasons_for_audit(decided), policy_version=decided.version)
    if decided.shadow is not None:
        _LOGGER.info("request %s: %s", request.request_id, shadow_text(decided.shadow))
    return decided


async def _history(
    request: Request, capability: Capability, services: Services, policies: PolicySet, call: CallRecord
) -> Mapping[str, JsonValue]:
    """Return what policies know of earlier calls. A call that only shows what it would do is not entered."""
    stage, principal = services.policies, request.principal
    if stage is None:
        return {}
    target, run = target_of(capability, request.arguments), ""
    if target.action.resource_type == "Run" and any(item.subject == "run" for item in policies.counters):
        run = await run_tree_of(services.store, id_in_tenant(principal.tenant, target.resource_id))
    only_looks = request.intent is not None and request.intent.only_look
    given = request.arguments if capability.policy_input is None else capability.policy_input(request.arguments)
    counting = Counting(uses=None if only_looks else call.uses, run=run)
    return await stage.history(policies, principal, target, given, counting)


def policy_refusal(what: str, principal: Principal, decided: Decided) -> Denied | None:
    """Return the refusal of a call, or of a start; None if it may go on. Without a stage for it, approval refuses."""
    outcome = decided.outcome
    match outcome:
        case None:
            reasons = (f"the arguments cannot be compared with policies: {decided.unfit}",)
            return _denied(what, principal, (), reasons)
        case Permitted():
            return None
        case Forbidden(policy_ids=names, reasons=reasons):
            return _denied(what, principal, names, reasons)
        case ApprovalRequired():
            groups = ", ".join(outcome.approvers)
            message = f"{what} needs the approval of {outcome.quorum} of {groups}"
            details: JsonObject = {"approvers": list(outcome.approvers), "quorum": outcome.quorum}
            if scope_allows(principal.scopes, READ_POLICIES):
                details["policies"] = list(outcome.policy_ids)
            return Denied("APPROVAL_REQUIRED", message, "ask one of them to make the call", details)
        case _:
            assert_never(outcome)


def _denied(what: str, principal: Principal, names: tuple[str, ...], reasons: tuple[str, ...]) -> Denied:
    message = f"a policy does not permit {what}"
    hint = "ask an owner of this server which policy decided; a key with more scopes would not help"
    if not scope_allows(principal.scopes, READ_POLICIES):
        return Denied("POLICY_DENIED", message, hint)
    why = "; ".join(reasons)
    details: JsonObject = {"policies": list(names), "reasons": list(reasons)}
    return Denied("POLICY_DENIED", f"{message}: {why}" if why else message, hint, details)


def reasons_for_audit(decided: Decided) -> tuple[str, ...] | None:
    """Return what the audit record says about a decision: the policies that decided, or why none could."""
    outcome = decided.outcome
    if outcome is None:
        return (f"unfit: {decided.unfit}",)
    named = outcome.policy_ids
    if isinstance(outcome, Forbidden) and not named:
        named = outcome.reasons
    if decided.shadow is not None:
        named = (*named, shadow_text(decided.shadow))
    return named or None


def shadow_text(outcome: PolicyOutcome) -> str:
    """Return what the policies in shadow mode would have decided, for logs and audit records."""
    kind = {Permitted: "permitted", Forbidden: "forbidden", ApprovalRequired: "approval"}[type(outcome)]
    return f"shadow {kind}: {', '.join(outcome.policy_ids) or 'no policy permits it'}"

"""Test cases of policies: a request, and what the policies are expected to decide about it.

    - name: agents do not refund more than 500
      principal: {kind: agent, groups: [support]}
      action: workflow:refund_order
      arguments: {amount: 501}
      expect: approval
      policies: [large-refunds]

Above it: the commands `penstock policy test` and `diff`. Below it: `sets`, `requests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

import msgspec

from penstock.base.json import JsonObject
from penstock.definitions.durations import parse_instant_ms
from penstock.governance.policy.amounts import UNITS, sum_value
from penstock.governance.policy.outcomes import ApprovalRequired, Forbidden, Permitted, PolicyOutcome
from penstock.governance.policy.redaction import path_text
from penstock.governance.policy.requests import (
    Circumstances,
    PolicyRequest,
    PrincipalEntity,
    context_text,
    principal_entity,
)
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.sets import ListQuestion, PolicySet
from penstock.governance.policy.shapes import Unfit, exact_decimal, project
from penstock.governance.principals import Principal, PrincipalKind

__all__ = ["CaseMistake", "CaseResult", "PolicyCase", "decide_case", "read_case"]

Word: TypeAlias = Literal["permitted", "forbidden", "approval"]


class CaseMistake(ValueError):
    """A test case cannot be read; the message says why."""


class CasePrincipal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who calls in a test case."""

    id: str = "somebody"
    tenant: str = "default"
    kind: PrincipalKind = "person"
    groups: list[str] = []
    scopes: list[str] = []
    attributes: dict[str, Any] = {}
    acting_for: list[str] = []
    subject: str | None = None


class CaseOrigin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where and when the call in a test case is made."""

    surface: str = "rest"
    address: str | None = None
    at: str = "2026-01-01T12:00:00Z"
    by_model: bool | None = None
    idempotency_key: bool = False


class PolicyCase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One test case, as it is written."""

    name: str
    principal: CasePrincipal = msgspec.field(default_factory=CasePrincipal)
    action: str
    resource: str = ""
    risk: Literal["low", "medium", "high", "critical"] = "low"
    arguments: dict[str, Any] = {}
    origin: CaseOrigin = msgspec.field(default_factory=CaseOrigin, name="from")
    history: dict[str, int | float] = {}
    """What policies know of earlier calls, this one included: counts and sums, by name."""
    expect: Word | None = None
    policies: list[str] | None = None
    """The policies that must decide; None if it does not matter which."""
    listed: bool | None = None
    hidden: list[str] | None = None
    """The fields of the answer that must be hidden, and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What the policies decided, and how that differs from what was expected."""

    case: PolicyCase
    decision: Word
    policies: tuple[str, ...]
    reasons: tuple[str, ...]
    listed: bool
    hidden: tuple[str, ...]
    """The fields of the answer that are hidden."""
    differences: tuple[str, ...]


def read_case(written: object) -> PolicyCase:
    """Read a test case; raise `CaseMistake` if it is not one."""
    try:
        return msgspec.convert(written, PolicyCase)
    except msgspec.ValidationError as error:
        raise CaseMistake(str(error)) from None


def decide_case(policies: PolicySet, actions: Mapping[str, ActionShape], case: PolicyCase) -> CaseResult:
    """Decide a case; raise `CaseMistake` if it names an action that does not exist."""
    action = actions.get(case.action)
    if action is None:
        raise CaseMistake(f"{case.name}: there is no action {case.action}")
    principal = _principal(case.principal)
    entity, seen = principal_entity(principal), _circumstances(case)
    outcome = _decide(policies, case, action, entity, seen)
    context = context_text(policies.list_reads, seen, None, None)
    (listed,) = policies.listed(entity, [ListQuestion(action, case.risk, case.resource or None)], context)
    decision, hidden = _word(outcome), _hidden(policies, case, action, entity, seen)
    return CaseResult(
        case=case,
        decision=decision,
        policies=outcome.policy_ids,
        reasons=outcome.reasons if isinstance(outcome, Forbidden) else (),
        listed=listed,
        hidden=hidden,
        differences=(*_differences(case, decision, outcome.policy_ids, listed=listed), *_uncovered(case, hidden)),
    )


def _decide(
    policies: PolicySet, case: PolicyCase, action: ActionShape, entity: PrincipalEntity, seen: Circumstances
) -> PolicyOutcome:
    try:
        given = project(action.input, case.arguments, policies.reads.input) if policies.reads.reads_input else None
    except Unfit as error:
        return Forbidden(policy_version=policies.version, reasons=(str(error),), failed=True)
    request = PolicyRequest(
        principal=entity,
        action=action,
        tenant=entity.tenant,
        risk=case.risk,
        resource_id=case.resource,
        context=context_text(policies.reads, seen, given, _history(policies, case)),
    )
    return policies.decide(request)


def _hidden(
    policies: PolicySet, case: PolicyCase, action: ActionShape, entity: PrincipalEntity, seen: Circumstances
) -> tuple[str, ...]:
    request = PolicyRequest(
        principal=entity,
        action=action,
        tenant=entity.tenant,
        risk=case.risk,
        resource_id=case.resource,
        context=context_text(policies.redaction_reads, seen, None, None),
    )
    return tuple(path_text(path) for path in policies.hidden_fields(request))


def _uncovered(case: PolicyCase, hidden: tuple[str, ...]) -> Iterable[str]:
    if case.hidden is not None and set(case.hidden) != set(hidden):
        expected = ", ".join(case.hidden) or "nothing"
        yield f"expected that {expected} is hidden, but it is {', '.join(hidden) or 'nothing'}"


def _principal(written: CasePrincipal) -> Principal:
    return Principal(
        id=written.id,
        tenant=written.tenant,
        kind=written.kind,
        scopes=frozenset(written.scopes),
        groups=frozenset(written.groups),
        attributes=written.attributes,
        acting_for=tuple(written.acting_for),
        subject=written.subject,
    )


def _circumstances(case: PolicyCase) -> Circumstances:
    origin = case.origin
    now_ms = parse_instant_ms(origin.at)
    if now_ms is None:
        raise CaseMistake(f"{case.name}: {origin.at!r} is not a time")
    by_model = case.principal.kind == "agent" or origin.surface == "mcp"
    return Circumstances(
        surface=origin.surface,
        by_model=by_model if origin.by_model is None else origin.by_model,
        now_ms=now_ms,
        address=origin.address,
        has_idempotency_key=origin.idempotency_key,
    )


def _history(policies: PolicySet, case: PolicyCase) -> JsonObject:
    """Return what the case says of earlier calls; whatever it leaves out is zero."""
    unknown = sorted(set(case.history) - {counter.name for counter in policies.counters})
    if unknown:
        raise CaseMistake(f"{case.name}: no policy counts {unknown[0]}")
    found: JsonObject = {}
    for counter in policies.counters:
        given = case.history.get(counter.name, 0)
        try:
            exact = exact_decimal(given, counter.name)
        except Unfit as error:
            raise CaseMistake(f"{case.name}: {error}") from None
        found[counter.name] = sum_value(int(exact * UNITS)) if counter.is_sum else given
    return found


def _word(outcome: PolicyOutcome) -> Word:
    match outcome:
        case Permitted():
            return "permitted"
        case Forbidden():
            return "forbidden"
        case ApprovalRequired():
            return "approval"
        case _:
            assert_never(outcome)


def _differences(case: PolicyCase, decision: Word, names: tuple[str, ...], *, listed: bool) -> Iterable[str]:
    if case.expect is not None and decision != case.expect:
        yield f"expected {case.expect}, but it is {decision} by {', '.join(names) or 'no policy'}"
    if case.policies is not None and set(case.policies) != set(names):
        yield f"expected that {', '.join(case.policies)} decide, but {', '.join(names) or 'no policy'} did"
    if case.listed is not None and listed is not case.listed:
        yield "it is listed" if listed else "it is not listed"

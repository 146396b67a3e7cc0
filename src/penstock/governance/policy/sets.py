"""A set of policies, parsed once, that decides about calls and about lists.

A decision involves few policies of a set: only policies whose scope admits the principal and the action. This module
selects that slice and evaluates nothing else; it parses each slice once and keeps it. So the number of policies hardly
matters, and neither does the number of tools in a list: tools that the same policies concern are decided once.

**Every diagnostic of the engine is a refusal.** Cedar skips a policy that fails, so a forbid that cannot be evaluated
would permit the call.

A tenant's policies are forbids, added to those of the server, so they can only narrow what is allowed. They do not
apply to the operations on policies, so that nobody locks their own tenant out.

Above it: the gate's stage for policies, the commands. Below it: `slices`, `requests`, `outcomes`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from penstock.base import limits
from penstock.governance.policy.annotations import PolicyAnnotations
from penstock.governance.policy.cedar import cedarpy
from penstock.governance.policy.history import Counter
from penstock.governance.policy.outcomes import (
    ApprovalRequired,
    ApprovalRequirement,
    Forbidden,
    Permitted,
    PolicyOutcome,
)
from penstock.governance.policy.reads import Reads
from penstock.governance.policy.redaction import FieldPath
from penstock.governance.policy.requests import PolicyRequest, PrincipalEntity
from penstock.governance.policy.schema import ActionShape, parent_of
from penstock.governance.policy.slices import (
    actions_named,
    admits_action,
    admits_principal,
    list_form,
    names_resources,
    repeat_form,
    tells_apart,
)
from penstock.governance.policy.source import Policy

__all__ = ["SCOPES_DECIDE", "ListQuestion", "PolicySet"]

_EVERYTHING: dict[str, Any] = {"op": "All"}
_DESCRIPTION = "Whatever the scopes of a key allow is permitted."
SCOPES_DECIDE = Policy(
    id="scopes-decide",
    effect="permit",
    text=f'@id("scopes-decide") @description("{_DESCRIPTION}")\npermit (principal, action, resource);',
    body={
        "effect": "permit",
        "principal": _EVERYTHING,
        "action": _EVERYTHING,
        "resource": _EVERYTHING,
        "conditions": [],
        "annotations": {"id": "scopes-decide", "description": _DESCRIPTION},
    },
    annotations=PolicyAnnotations(description=_DESCRIPTION),
    source="built-in",
)
"""The policy that replaces a missing server-wide set: tenants may narrow what scopes allow."""

# How the engine names a policy in its errors: here, by its position in the set.
_PLACE = re.compile(r"policy `(\d+)`")
# Tenants' policies do not apply to these operations.
_ABOUT_POLICIES = "policy."
_VERSION_DIGITS = 16

Slice = tuple[int, ...]
"""The positions of some policies in their set."""


class ListQuestion(NamedTuple):
    """Whether something is listed. `resource_id` is `None` if the arguments name the resource."""

    action: ActionShape
    risk: str
    resource_id: str | None


class _ListKey(NamedTuple):
    """What the answer to a question depends on, besides the principal and the context."""

    chosen: Slice
    action: ActionShape | None
    resource_type: str
    risk: str
    resource_id: str | None
    knows_resource: bool


class PolicySet:
    """The policies that apply to one tenant: the server's, then the tenant's own."""

    def __init__(self, server: Sequence[Policy], tenant: Sequence[Policy] = ()) -> None:
        self.policies: tuple[Policy, ...] = (*(server or (SCOPES_DECIDE,)), *tenant)
        self._first_of_tenant = len(self.policies) - len(tenant)
        self.version = _digest(self.policies, self._first_of_tenant)
        self.reads = Reads.of(policy.body for policy in self.policies)
        self.list_reads = Reads.of(self._list_bodies())
        self.redacting = tuple(policy for policy in self.policies if policy.annotations.redact)
        """The policies that hide fields of answers."""
        self.redaction_reads = Reads.of(policy.body for policy in self.redacting)
        places = enumerate(self.policies)
        self._redacting_places = frozenset(place for place, policy in places if policy.annotations.redact)
        self._apart = [tells_apart(policy.body) for policy in self.policies]
        self._naming_places = frozenset(
            place for place, policy in enumerate(self.policies) if names_resources(policy.body)
        )
        # Caches of this set: they end with it.
        self._handle = lru_cache(limits.POLICY_SLICES_KEPT)(self._parse)
        self._list_handle = lru_cache(limits.POLICY_SLICES_KEPT)(self._parse_for_lists)
        self._repeat_handle = lru_cache(limits.POLICY_SLICES_KEPT)(self._parse_for_repeats)
        self._decision = lru_cache(limits.POLICY_DECISIONS_KEPT)(self._decide)
        self.hidden_fields = lru_cache(limits.POLICY_DECISIONS_KEPT)(self._hidden_fields)
        self._of_principal = lru_cache(limits.POLICY_DECISIONS_KEPT)(self._admitting_principal)
        self._of_action = lru_cache(limits.POLICY_DECISIONS_KEPT)(self._admitting_action)
        self._permitting = lru_cache(limits.POLICY_DECISIONS_KEPT)(self._permits_all)
        self._selected = lru_cache(limits.POLICY_DECISIONS_KEPT)(self._select)
        self._named = frozenset(name for policy in self.policies for name in actions_named(policy.body["action"]))

    @cached_property
    def counters(self) -> tuple[Counter, ...]:
        """Every count of earlier calls that the policies declare."""
        return tuple(dict.fromkeys(item for policy in self.policies for item in policy.annotations.history))

    @property
    def has_shadows(self) -> bool:
        """Whether some policy is evaluated beside the others and not enforced."""
        return any(policy.is_shadow for policy in self.policies)

    def decide(self, request: PolicyRequest) -> PolicyOutcome:
        """Decide about a call."""
        return self._decision(self._without_id(request), with_shadows=False)

    def decide_with_shadows(self, request: PolicyRequest) -> PolicyOutcome:
        """Decide as if the policies in shadow mode were enforced."""
        return self._decision(self._without_id(request), with_shadows=True)

    def _without_id(self, request: PolicyRequest) -> PolicyRequest:
        """Return a request without its resource, if no policy that concerns it looks at which one it is.

        Most do not, and then a decision that is known holds for all resources: evaluating one takes long.
        """
        concerned = self._slice(request.principal, request.action)
        return request if not self._naming_places.isdisjoint(concerned) else replace(request, resource_id="")

    def decide_repeat(self, request: PolicyRequest) -> PolicyOutcome:
        """Decide about a call that was decided and made before, by all but what the policies know of earlier calls."""
        return self._decision(request, with_shadows=False, repeats=True)

    def listed(self, principal: PrincipalEntity, questions: Iterable[ListQuestion], context: str) -> list[bool]:
        """Return for each question whether some arguments could be permitted."""
        known: dict[_ListKey, bool] = {}
        answers = []
        for question in questions:
            key = self._list_key(principal, question)
            if key not in known:
                answer = self._list_answer(key, principal, question.action, context)
                known[key] = answer.allows and not answer.errors
            answers.append(known[key])
        return answers

    def listed_because(self, principal: PrincipalEntity, question: ListQuestion, context: str) -> tuple[str, ...]:
        """Return the policies by which something is listed, or is not."""
        answer = self._list_answer(self._list_key(principal, question), principal, question.action, context)
        return tuple(self.policies[int(place)].id for place in answer.deciding)

    def counters_for(self, principal: PrincipalEntity, action: ActionShape) -> tuple[Counter, ...]:
        """Return the counts of earlier calls that a decision about this action depends on."""
        if not self.counters or "history" not in self.reads.context:
            return ()
        concerned = Reads.of(self.policies[place].body for place in self._slice(principal, action))
        return self.counters if "history" in concerned.context else ()

    def always_permits(self, action: ActionShape) -> bool:
        """Whether an action is permitted to everybody, whatever the circumstances, and is not counted."""
        return self._permitting(action.name if action.name in self._named else "", action.groups) and not any(
            counter.action == action.name for counter in self.counters
        )

    def _permits_all(self, name: str, groups: tuple[str, ...]) -> bool:
        concerned = [self.policies[place] for place in self._of_action(name, groups)]
        deciding = [policy for policy in concerned if not policy.annotations.redact]
        return all(policy.effect == "permit" for policy in deciding) and any(map(_is_for_all, deciding))

    def reads_input(self, principal: PrincipalEntity, action: ActionShape) -> bool:
        """Whether a decision about this action of this principal depends on the arguments."""
        return Reads.of(self.policies[place].body for place in self._slice(principal, action)).reads_input

    def _list_key(self, principal: PrincipalEntity, question: ListQuestion) -> _ListKey:
        action = question.action
        chosen = tuple(place for place in self._slice(principal, action) if not self._is_left_out(place))
        apart = [self._apart[place] for place in chosen]
        knows = question.resource_id is not None
        return _ListKey(
            chosen,
            action if any(actions for actions, _ in apart) else None,
            action.resource_type,
            question.risk,
            question.resource_id if any(resources for _, resources in apart) else None,
            knows,
        )

    def _list_answer(self, key: _ListKey, principal: PrincipalEntity, action: ActionShape, context: str) -> _Answer:
        if not key.chosen:
            return _NO_ANSWER
        request = PolicyRequest(
            principal=principal,
            action=action,
            tenant=principal.tenant,
            risk=key.risk,
            resource_id=key.resource_id or "",
            context=context,
        )
        return _evaluated(self._list_handle(key.chosen, key.knows_resource), request)

    def _is_left_out(self, place: int) -> bool:
        """Whether a policy hides nothing from lists: it is not enforced, or forbids something else than the call."""
        policy = self.policies[place]
        return policy.is_shadow or policy.annotations.asks_for_approval or bool(policy.annotations.redact)

    def _list_bodies(self) -> Iterable[dict[str, Any]]:
        for place, policy in enumerate(self.policies):
            forms = (list_form(policy.body, knows_resource=known) for known in (True, False))
            yield from () if self._is_left_out(place) else (form for form in forms if form is not None)

    def _slice(self, principal: PrincipalEntity, action: ActionShape) -> Slice:
        """Return the policies that concern an action of a principal.

        Actions that no policy names differ only by their groups, so that a list of tools is selected for once.
        """
        exempt = action.name.startswith(_ABOUT_POLICIES)
        return self._selected(principal, action.name if action.name in self._named else "", action.groups, exempt)

    def _select(self, principal: PrincipalEntity, name: str, groups: tuple[str, ...], exempt: bool) -> Slice:
        admitted, last = self._of_principal(principal), self._first_of_tenant if exempt else len(self.policies)
        return tuple(place for place in self._of_action(name, groups) if place in admitted and place < last)

    def _admitting_principal(self, principal: PrincipalEntity) -> frozenset[int]:
        places = enumerate(self.policies)
        return frozenset(place for place, policy in places if admits_principal(policy.body["principal"], principal))

    def _admitting_action(self, name: str, groups: tuple[str, ...]) -> Slice:
        places = enumerate(self.policies)
        return tuple(place for place, policy in places if admits_action(policy.body["action"], name, groups))

    def _decide(self, request: PolicyRequest, *, with_shadows: bool, repeats: bool = False) -> PolicyOutcome:
        parsed = self._repeat_handle if repeats else self._handle
        concerned = self._slice(request.principal, request.action)
        if self._redacting_places:
            concerned = tuple(place for place in concerned if place not in self._redacting_places)
        chosen = tuple(place for place in concerned if with_shadows or not self.policies[place].is_shadow)
        answer = _evaluated(parsed(chosen), request) if chosen else _NO_ANSWER
        if answer.errors:
            return self._failed(answer.errors)
        deciding = [self.policies[int(place)] for place in answer.deciding]
        names = tuple(policy.id for policy in deciding)
        if answer.allows:
            return Permitted(policy_version=self.version, policy_ids=names)
        if not deciding:
            return Forbidden(policy_version=self.version, reasons=("no policy permits it",))
        reasons = tuple(_reason(policy) for policy in deciding)
        if not all(policy.annotations.asks_for_approval for policy in deciding):
            return Forbidden(policy_version=self.version, policy_ids=names, reasons=reasons)
        # Approval replaces these forbids, not a permit: without one, nothing could be approved.
        others = tuple(place for place in chosen if not self.policies[place].annotations.asks_for_approval)
        without = _evaluated(parsed(others), request) if others else _NO_ANSWER
        if without.errors:
            return self._failed(without.errors)
        if not without.allows:
            return Forbidden(policy_version=self.version, reasons=("no policy permits it",))
        return ApprovalRequired(policy_version=self.version, requirements=tuple(map(_requirement, deciding)))

    def _hidden_fields(self, request: PolicyRequest) -> tuple[FieldPath, ...]:
        """Return the fields of an answer that are hidden. A policy that cannot be evaluated hides its fields, too."""
        concerned = self._slice(request.principal, request.action)
        chosen = tuple(place for place in concerned if place in self._redacting_places)
        if not chosen:
            return ()
        answer = _evaluated(self._handle(chosen), request)
        hiding = chosen if answer.errors else map(int, answer.deciding)
        return tuple(dict.fromkeys(path for place in hiding for path in self.policies[place].annotations.redact))

    def _failed(self, errors: Iterable[str]) -> Forbidden:
        """Return the refusal for policies that could not be evaluated, which it names."""
        places = [int(place) for error in errors for place in _PLACE.findall(error)]
        reasons = tuple(_PLACE.sub(lambda found: f"policy {self.policies[int(found[1])].id}", text) for text in errors)
        return Forbidden(
            policy_version=self.version,
            policy_ids=tuple(self.policies[place].id for place in places),
            reasons=reasons,
            failed=True,
        )

    def _parse(self, chosen: Slice) -> Any:
        return _handle({str(place): self.policies[place].body for place in chosen})

    def _parse_for_lists(self, chosen: Slice, knows_resource: bool) -> Any:
        forms = {str(place): list_form(self.policies[place].body, knows_resource=knows_resource) for place in chosen}
        return _handle({place: form for place, form in forms.items() if form is not None})

    def _parse_for_repeats(self, chosen: Slice) -> Any:
        return _handle({str(place): repeat_form(self.policies[place].body) for place in chosen})


class _Answer(NamedTuple):
    allows: bool
    deciding: tuple[str, ...]
    errors: tuple[str, ...]


_NO_ANSWER = _Answer(False, (), ())


def _handle(bodies: dict[str, Any]) -> Any:
    text = json.dumps({"staticPolicies": bodies, "templates": {}, "templateLinks": []})
    return cedarpy.PolicySet.from_json_str(text)


def _evaluated(handle: Any, request: PolicyRequest) -> _Answer:
    principal, action = request.principal, request.action
    asked = {
        "principal": {"type": principal.type, "id": principal.id},
        "action": {"type": "Action", "id": action.name},
        "resource": {"type": action.resource_type, "id": request.resource_id},
        "context": request.context,
    }
    entities = _entities(principal.body, action, request.resource_id, request.tenant, request.risk)
    (result,) = cedarpy.is_authorized_batch([asked], handle, entities)
    errors = tuple(map(str, result.diagnostics.errors))
    if result.decision is cedarpy.Decision.NoDecision and not errors:
        errors = ("the request could not be evaluated",)
    return _Answer(result.allowed, tuple(sorted(result.diagnostics.reasons, key=int)), errors)


@lru_cache(limits.POLICY_ENTITIES_KEPT)
def _entities(principal: str, action: ActionShape, resource_id: str, tenant: str, risk: str) -> Any:
    named = {
        "uid": {"type": "Action", "id": action.name},
        "attrs": {},
        "parents": [{"type": "Action", "id": group} for group in action.groups],
    }
    within = parent_of(action.resource_type, resource_id)
    resource = _resource(action.resource_type, resource_id, tenant, risk)
    bodies = [json.dumps(named), json.dumps(resource)]
    if within is not None:
        resource["parents"] = [{"type": within[0], "id": within[1]}]
        bodies[1:] = [json.dumps(resource), json.dumps(_resource(*within, tenant, risk))]
    return cedarpy.Entities.from_json_str(f"[{principal},{','.join(bodies)}]")


def _resource(resource_type: str, resource_id: str, tenant: str, risk: str) -> dict[str, Any]:
    return {
        "uid": {"type": resource_type, "id": resource_id},
        "attrs": {"id": resource_id, "tenant": tenant, "risk": risk},
        "parents": [],
    }


def _is_for_all(policy: Policy) -> bool:
    """Whether a policy that admits an action holds for every principal, resource and circumstance."""
    body = policy.body
    scopes = (body["principal"]["op"], body["resource"]["op"])
    return scopes == ("All", "All") and not body.get("conditions") and not policy.is_shadow


def _reason(policy: Policy) -> str:
    return policy.annotations.description or f"the policy {policy.id} forbids it"


def _requirement(policy: Policy) -> ApprovalRequirement:
    asked = policy.annotations
    return ApprovalRequirement(
        policy_id=policy.id,
        approvers=asked.approvers,
        quorum=asked.quorum,
        services=asked.services,
        escalate_after_ms=asked.escalate_after_ms,
        escalate_to=asked.escalate_to,
    )


def _digest(policies: Sequence[Policy], first_of_tenant: int) -> str:
    listed = [[place < first_of_tenant, policy.id, policy.body] for place, policy in enumerate(policies)]
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_VERSION_DIGITS]

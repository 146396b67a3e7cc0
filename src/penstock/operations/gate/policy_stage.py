"""The gate's stage for policies: decides about calls with their real arguments, and about what is listed.

The server's policies come from files (`replace_server_set`, `replace_graph_set`), those of tenants from the platform
store. The stage reads a tenant's policies again after any process changed some. Where nothing is configured, `of`
returns None and the stage costs a look into a dictionary.

The stage does not decide calls that the process itself makes. `permissions.starting` decides the start of a schedule
for the maker of the schedule.

Above it: `pipeline`, the operations on policies. Below it: `governance.policy`, the platform port.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lru_cache import LruCache
from penstock.governance.policy.annotations import PolicyAnnotations
from penstock.governance.policy.confined import scopes_decide_elsewhere
from penstock.governance.policy.outcomes import ApprovalRequired, Forbidden, Permitted, PolicyOutcome
from penstock.governance.policy.redaction import FieldPath
from penstock.governance.policy.requests import (
    Circumstances,
    PolicyRequest,
    PrincipalEntity,
    context_text,
    principal_entity,
)
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.sets import ListQuestion, PolicySet
from penstock.governance.policy.shapes import Unfit, project
from penstock.governance.policy.source import ParsedText, Policy, parse_policies
from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.policies.history import CountedCall, PolicyHistory
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.topics import Mark, Topic
from penstock.runtime.ports.usage import CallUses
from penstock.runtime.tables.resources import list_resources

__all__ = [
    "POLICY_KIND",
    "Counting",
    "Decided",
    "DerivedPolicies",
    "PolicyStage",
    "Standpoint",
    "Target",
    "target_of",
]

_LOGGER = logging.getLogger("penstock.policy")
POLICY_KIND = "policy"
"""The kind under which the platform store keeps the policies of tenants."""
DerivedPolicies: TypeAlias = Callable[[Database, str], Awaitable[tuple[Policy, ...]]]
"""Makes policies of a tenant from other things that it has stored."""
_NO_GRAPHS: dict[str, tuple[Policy, ...]] = {}
_ENTITIES_KEPT = 1_024
_VISIBLE_KEPT = 256
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Standpoint:
    """From where somebody calls or looks at a list."""

    surface: str
    remote: str | None = None
    from_person: bool = False
    has_idempotency_key: bool = False
    from_model: bool = False
    """Whether a run acts that a model began."""
    at_ms: int | None = None
    """When, for a call that was made before; None for now."""
    history: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the policies know of earlier calls: see `PolicyStage.history`."""
    repeats: bool = False
    """Whether the call was decided before and has an answer: what policies know of earlier calls does not count."""

    def by_model(self, principal: Principal) -> bool:
        """Whether a model chose the call, as far as that can be known."""
        return principal.kind == "agent" or self.from_model or (self.surface == "mcp" and not self.from_person)


class Counting(NamedTuple):
    """How policies count a call; see `CountedCall`."""

    uses: CallUses | None = None
    run: str = ""
    was_made: bool = False


class Target(NamedTuple):
    """What is called: an action on a resource."""

    action: ActionShape
    risk: str
    resource_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decision about a call. `unfit` says why the arguments could not be decided about, if they could not."""

    outcome: PolicyOutcome | None = None
    shadow: PolicyOutcome | None = None
    """What the policies in shadow mode would have changed the decision to; None if nothing."""
    unfit: str | None = None
    version: str = ""
    hidden: bool = False
    """Whether the capability has to look unknown: a tenant defined it, and no arguments would be permitted."""
    repeats: bool = False
    """Whether it was decided as the repetition of a call that has an answer, and so must not be made."""

    @property
    def is_final(self) -> bool:
        """Whether it refuses the call before its arguments are validated. Otherwise they may be what is wrong."""
        return isinstance(self.outcome, Forbidden) and not self.outcome.failed


@dataclass(frozen=True, slots=True)
class _TenantPolicies:
    policies: PolicySet | None
    mark: Mark
    """What the store said of changes before the policies were read."""
    made_from: Hashable
    """The texts that the set was made of; it is made again only if they change."""


class PolicyStage:
    """The policies of a server and of its tenants."""

    def __init__(self, platform: Database, clock: Clock, derived: DerivedPolicies | None = None) -> None:
        self._platform = platform
        self._derived = derived
        self._clock = clock
        self._history = PolicyHistory(platform, clock)
        self._server: tuple[Policy, ...] = ()
        self._graphs: dict[str, dict[str, tuple[Policy, ...]]] = {}
        """The policies of graphs that have some, by tenant."""
        self._known: dict[str, _TenantPolicies] = {}
        self._changes = 0
        self._parsed: LruCache[tuple[str, str], ParsedText] = LruCache(limits.POLICY_SLICES_KEPT)
        self._entities: LruCache[int, tuple[Principal, PrincipalEntity]] = LruCache(_ENTITIES_KEPT)
        self._visible: LruCache[Hashable, frozenset[str]] = LruCache(_VISIBLE_KEPT)

    @property
    def server(self) -> tuple[Policy, ...]:
        """The policies that hold for all tenants; none if scopes alone decide."""
        return self._server

    def replace_server_set(self, policies: Sequence[Policy]) -> None:
        """Use other policies for all tenants from now on."""
        self._server = tuple(policies)
        self._changes += 1
        self._known.clear()

    def replace_graph_set(self, tenant: str, graph_id: str, policies: tuple[Policy, ...]) -> None:
        """Use other policies for one graph from now on, beside those of the server."""
        of_tenant = dict(self._graphs.get(tenant, {}))
        of_tenant.pop(graph_id, None)
        if policies:
            of_tenant[graph_id] = policies
        if of_tenant != self._graphs.get(tenant, {}):
            self._graphs[tenant] = of_tenant
            self.changed(tenant)

    def changed(self, tenant: str) -> None:
        """Read a tenant's policies again before they are next used."""
        self._changes += 1
        self._known.pop(tenant, None)

    def at_hand(self, tenant: str) -> tuple[PolicySet | None] | None:
        """Return the policies for a tenant in a tuple, if they are known without reading anything; None if not."""
        known = self._known.get(tenant)
        return (known.policies,) if known is not None and known.mark == self._mark() else None

    def has_none(self, tenant: str) -> bool:
        """Whether the stage knows, without reading anything, that a tenant has no policies."""
        return self.at_hand(tenant) == (None,)

    def _mark(self) -> Mark:
        return self._platform.changed(Topic.POLICIES)

    async def of(self, tenant: str) -> PolicySet | None:
        """Return the policies that hold for a tenant; None without policies, so that scopes alone decide."""
        known = self.at_hand(tenant)
        return known[0] if known is not None else await self._read(tenant)

    async def _read(self, tenant: str) -> PolicySet | None:
        before, mark, changes = self._known.get(tenant), self._mark(), self._changes
        own = await self.stored(tenant)
        if self._derived is not None:
            own += await self._derived(self._platform, tenant)
        graphs = self._graphs.get(tenant, _NO_GRAPHS)
        made_from = (id(self._server), id(graphs), tuple((policy.source, policy.text) for policy in own))
        if before is not None and before.made_from == made_from:
            policies = before.policies  # making a large set takes long, and a new one has empty caches
        else:
            server = self._server
            if graphs:
                of_graphs = (policy for _, listed in sorted(graphs.items()) for policy in listed)
                server = (*(server or (scopes_decide_elsewhere(graphs),)), *of_graphs)
            policies = PolicySet(server, own) if server or own else None
        if changes != self._changes:  # something was changed meanwhile, so this may be outdated already
            return policies
        self._known[tenant] = _TenantPolicies(policies, mark, made_from)
        while len(self._known) > limits.EXPOSED_TENANTS_KEPT:
            del self._known[next(iter(self._known))]
        return policies

    async def stored(self, tenant: str) -> tuple[Policy, ...]:
        """Return the policies that a tenant has stored. A document that cannot be read forbids everything."""
        page = await list_resources(self._platform, tenant, POLICY_KIND, limit=limits.POLICY_DOCUMENTS_PER_TENANT_MAX)
        found: list[Policy] = []
        for row in page.rows:
            text = row.body.get("text")
            if not isinstance(text, str) or not text:  # an empty text cannot be stored, so this row was damaged
                _LOGGER.error(
                    "stored policies of %s have no text, so nothing is permitted: %s", tenant, row.resource_id
                )
                found.append(_forbid_all(row.resource_id))
                continue
            key = (row.resource_id, text)
            parsed = self._parsed.get(key) or parse_policies(text, row.resource_id)
            self._parsed.put(key, parsed)
            if parsed.problems:
                _LOGGER.error("stored policies of %s cannot be used, so nothing is permitted: %s", tenant, parsed)
                found.append(_forbid_all(row.resource_id))
            found += parsed.policies
        return tuple(found)

    def entity(self, principal: Principal) -> PrincipalEntity:
        """Return a principal as policies see it."""
        known = self._entities.get(id(principal))
        if known is None or known[0] is not principal:
            known = (principal, principal_entity(principal))
            self._entities.put(id(principal), known)
        return known[1]

    def decide(
        self,
        policies: PolicySet,
        principal: Principal,
        capability: Capability,
        arguments: JsonObject,
        standpoint: Standpoint,
    ) -> Decided:
        """Decide about a call of a capability."""
        given = arguments if capability.policy_input is None else capability.policy_input(arguments)
        target = target_of(capability, arguments)
        decided = self.decide_action(policies, principal, target, given, standpoint)
        if not capability.is_of_tenant or isinstance(decided.outcome, (Permitted, ApprovalRequired)):
            return decided
        return replace(decided, hidden=not self.visible(policies, principal, (capability,), standpoint))

    def decide_action(
        self, policies: PolicySet, principal: Principal, target: Target, arguments: JsonObject, standpoint: Standpoint
    ) -> Decided:
        """Decide about an action on a resource with these arguments; `standpoint.history` comes from `history`."""
        reads, action = policies.reads, target.action
        try:
            given = project(action.input, arguments, reads.input) if reads.reads_input else None
        except Unfit as error:
            return Decided(unfit=str(error), version=policies.version)
        request = PolicyRequest(
            principal=self.entity(principal),
            action=action,
            tenant=principal.tenant,
            risk=target.risk,
            resource_id=target.resource_id,
            context=context_text(reads, self._circumstances(principal, standpoint), given, {**standpoint.history}),
        )
        if standpoint.repeats:
            return Decided(outcome=policies.decide_repeat(request), version=policies.version, repeats=True)
        outcome, shadow = policies.decide(request), None
        if policies.has_shadows:
            shadow = policies.decide_with_shadows(request)
            shadow = None if _says_the_same(shadow, outcome) else shadow
        return Decided(outcome=outcome, shadow=shadow, version=policies.version)

    def hidden_fields(
        self, policies: PolicySet, principal: Principal, target: Target, standpoint: Standpoint
    ) -> tuple[FieldPath, ...]:
        """Return the fields of the answer of an action that are hidden from a principal who looks at it now."""
        seen = self._circumstances(principal, standpoint)
        request = PolicyRequest(
            principal=self.entity(principal),
            action=target.action,
            tenant=principal.tenant,
            risk=target.risk,
            resource_id=target.resource_id,
            context=context_text(policies.redaction_reads, seen, None, None),
        )
        return policies.hidden_fields(request)

    async def history(
        self, policies: PolicySet, principal: Principal, target: Target, arguments: JsonObject, counting: Counting
    ) -> Mapping[str, JsonValue]:
        """Return what policies know of earlier calls, this one included, for a decision that depends on it.

        The call is entered, so that later ones see it. Raise `Unfit` if an argument that is added up cannot be.
        """
        call = CountedCall(
            tenant=principal.tenant,
            principal=principal.id,
            action=target.action,
            resource=target.resource_id,
            arguments=arguments,
            run=counting.run,
            uses=counting.uses,
            was_made=counting.was_made,
        )
        asked = policies.counters_for(self.entity(principal), target.action)
        return await self._history.read(policies.counters, asked, call)

    def _circumstances(self, principal: Principal, standpoint: Standpoint) -> Circumstances:
        return Circumstances(
            surface=standpoint.surface,
            by_model=standpoint.by_model(principal),
            now_ms=self._clock.now_ms() if standpoint.at_ms is None else standpoint.at_ms,
            address=standpoint.remote,
            has_idempotency_key=standpoint.has_idempotency_key,
        )

    def list_context(self, policies: PolicySet, principal: Principal, standpoint: Standpoint) -> str:
        """Return the circumstances that a list depends on: equal texts, equal lists. Seconds count by the minute."""
        seen = self._circumstances(principal, standpoint)
        minute = seen.now_ms - seen.now_ms % _MINUTE_MS
        return context_text(policies.list_reads, replace(seen, now_ms=minute), None, None)

    def list_key(self, policies: PolicySet | None, principal: Principal, standpoint: Standpoint) -> Hashable:
        """Return what a list depends on, besides scopes and the items themselves."""
        if policies is None:
            return None
        return (policies.version, self.entity(principal).key, self.list_context(policies, principal, standpoint))

    def visible(
        self,
        policies: PolicySet,
        principal: Principal,
        capabilities: Iterable[Capability],
        standpoint: Standpoint,
        revisions: Hashable = None,
    ) -> frozenset[str]:
        """Return the names of those capabilities for which some arguments could be permitted.

        `revisions` identifies the capabilities; with it, the answer is kept.
        """
        key = (self.list_key(policies, principal, standpoint), principal.scopes, revisions)
        known = self._visible.get(key) if revisions is not None else None
        if known is None:
            listed = tuple(capabilities)
            context = self.list_context(policies, principal, standpoint)
            answers = policies.listed(self.entity(principal), map(_question, listed), context)
            known = frozenset(item.name for item, answer in zip(listed, answers, strict=True) if answer)
            if revisions is not None:
                self._visible.put(key, known)
        return known


def target_of(capability: Capability, arguments: JsonObject) -> Target:
    """Return what a call is about."""
    resource_id = capability.authorization(arguments).resource_id or ""
    return Target(capability.policy_action, capability.governance.risk, resource_id)


def _question(capability: Capability) -> ListQuestion:
    # The arguments of a built-in operation name its resource, and are unknown here.
    is_known = capability.populator != "builtin"
    resource_id = capability.authorization({}).resource_id if is_known else None
    return ListQuestion(capability.policy_action, capability.governance.risk, resource_id)


def _says_the_same(one: PolicyOutcome, other: PolicyOutcome) -> bool:
    if isinstance(one, ApprovalRequired) and isinstance(other, ApprovalRequired):
        return one.requirements == other.requirements
    return type(one) is type(other)


def _forbid_all(source: str) -> Policy:
    """Return the policy in place of a stored document that cannot be read any more."""
    everything: dict[str, str] = {"op": "All"}
    body: dict[str, object] = {
        "effect": "forbid",
        "principal": everything,
        "action": everything,
        "resource": everything,
        "conditions": [],
    }
    description = f"the stored policies {source} cannot be read"
    return Policy(
        id=f"unreadable-{source}",
        effect="forbid",
        text="forbid (principal, action, resource);",
        body=body,
        annotations=PolicyAnnotations(description=description),
        source=source,
    )

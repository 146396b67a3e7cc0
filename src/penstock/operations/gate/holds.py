"""The stage of the gate that holds calls until somebody approves them.

`settle` says whether a call waits: by the preset, by what its operation or document says, and by what a policy asks
for. A handler that finds out later that it would start something that has to wait raises `HoldRequired` before it has
changed anything, and the whole call waits. A call that waits becomes a run (`Holder`); this module only says what
exactly is to be approved. When the run makes the call, it comes through the gate again with the approval as proof.
Directly before the effect, `settle` checks that it is the call that was approved: the same principal, arguments,
schema, state and policies, before the approval expires.

Above it: `pipeline`, what starts runs. Below it: `governance.holds` decides, `governance.approvals` digests. How a held
call is stored, shown and made is not decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from hmac import compare_digest
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.errors import Conflict, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.base.keyed_digests import keyed_digest
from penstock.definitions.canonical import canonical_json
from penstock.definitions.reached import Reached
from penstock.definitions.schemas.compiled import CompiledSchema, apply_defaults, load_schema
from penstock.definitions.secret_answers import secret_paths, secrets_in, with_values
from penstock.governance.approvals import CallBinding, digest_of, value_digest
from penstock.governance.authorship import AuthorshipRules, has_to_propose
from penstock.governance.holds import (
    Approval,
    CallFacts,
    Escalation,
    Grant,
    Hold,
    Preset,
    WriteProof,
    auto_execution_denied,
    hold_of,
)
from penstock.governance.policy.outcomes import ApprovalRequired, approvals_suffice
from penstock.operations.catalogue.capability import Capability, Governance, Reply
from penstock.operations.gate.context import Context, HoldChoices, Principal, Request, Services, WriteIntent
from penstock.operations.gate.policy_stage import Decided
from penstock.operations.gate.rehearsal import rehearse

__all__ = [
    "GRANTED",
    "DraftDesk",
    "HoldRequired",
    "HoldStage",
    "Holder",
    "PendingCall",
    "argument_secrets",
    "binding_of",
    "drifted",
    "facts_of",
    "is_approved",
    "policy_approvals",
    "reach_in",
    "reached_changes",
    "refuse_intent",
    "runs_as_sent",
    "state_of",
]

_CHANGED = "propose the call again; the approved call was not made"
_DANGEROUS = frozenset({"high", "critical"})
_PREFLIGHT = "preflight"
REACHES = "reaches"
"""The member of a witness that has what a call can reach."""
_NAMES_SHOWN = 5
_NOTHING: JsonValue = "-"  # no version is this
GRANTED = "granted"
"""What `Context.found_out` says if a grant covers the call."""


class HoldRequired(Exception):
    """Raised by a handler before it has changed anything: the call has to wait."""

    def __init__(self, hold: Hold, governance: Governance) -> None:
        super().__init__(hold.reason)
        self.hold = hold
        self.governance = governance


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has to wait: why, and what exactly would be approved."""

    hold: Hold
    binding: CallBinding
    digest: str
    governance: Governance


class Holder(Protocol):
    """Stores a held call as a run, and answers its caller."""

    async def hold(self, context: Context, pending: PendingCall) -> Reply[Any]:
        """Start the run that asks for approval, with the record of the call; return the answer for the caller."""


PreflightMatch: TypeAlias = Literal["none", "mismatch", "matches"]


class DraftDesk(Protocol):
    """Knows what agents may do by themselves, and shows calls before they are made."""

    def needs_grant(self, principal: Principal) -> bool:
        """Whether what a principal changes waits unless a grant covers it, whatever the preset is."""

    async def grants(self, context: Context) -> tuple[Grant, ...]:
        """Return the grants of the caller."""

    async def used_preflight(self, context: Context) -> PreflightMatch:
        """Use up the preflight that a call names, and return whether it is of exactly this call.

        Raise `Rejected` if there is no such preflight, or it is somebody else's.
        """

    async def preview(self, context: Context, hold: Hold | None) -> Reply[Any]:
        """Return what a call would do, with a handle for making it. Nothing else is changed."""


class HoldStage:
    """Decides whether calls wait, and checks those that were approved."""

    def __init__(self, services: Services) -> None:
        self.holder: Holder | None = None
        """Without one, calls that would have to wait are refused."""
        self.desk: DraftDesk | None = None
        self.call: Callable[[Request], Awaitable[Any]] | None = None
        """Makes a call through the gate, for operations that make one for their caller."""
        self.find: Callable[[str, str], Awaitable[Capability | None]] | None = None
        """Finds what a tenant exposes by its name."""
        self.reach: Callable[[str, Iterable[Reached]], Awaitable[dict[str, str | None]]] | None = None
        """Returns everything that names of a tenant lead to, each with its version."""
        self._choices: HoldChoices = services.holds

    def is_free(self, context: Context, decided: Decided | None) -> bool:
        """Whether a call is made now for sure, as nearly all are: `settle` would return None."""
        request, capability = context.request, context.capability
        if request.approval is not None or request.intent is not None or capability.approvals is not None:
            return False
        if policy_approvals(decided):
            return False
        return not self._may_wait(request, capability.governance)

    async def settle(self, context: Context, decided: Decided | None) -> Reply[Any] | None:
        """Hold a call that has to wait, and return the answer for its caller; None if it is made now.

        Most calls are settled by a look at the preset and at who calls. An approved call is checked once more.
        """
        request, capability = context.request, context.capability
        if request.approval is not None:
            await self._release(context, decided)
            return None
        asked, intent = policy_approvals(decided), request.intent
        if capability.approvals is not None and not request.by_owner:
            asked = (*asked, *await capability.approvals(context, context.given))
        if intent is not None:
            await self._check_intent(context, intent)
        if not asked and not self._may_wait(request, capability.governance):
            return None
        hold = await self.hold_for(context, capability.governance, asked, changes=not capability.annotations.read_only)
        looks = intent is not None and intent.only_look
        if hold is None and not looks:
            return None
        wanted = await self._found(context, hold)
        if looks:
            return await self._preview(context, wanted.hold if wanted is not None else None)
        return None if wanted is None else await self.hold(context, wanted)

    async def _check_intent(self, context: Context, intent: WriteIntent) -> None:
        """Refuse a call that is not what its caller says that it is: by its preflight, or by the state looked at."""
        capability = context.capability
        if intent.only_look and not capability.governance.holdable:
            message = f"{capability.name} decides held calls, so it has no preflight"
            raise Rejected("PREFLIGHT_UNSUPPORTED", message, "call it directly, without a preflight")
        if intent.state_witness_hash is not None:
            await _check_witness(context, intent.state_witness_hash)
        if intent.preflight_id is None or intent.only_look:
            return
        match = await self._preflight_match(context)
        if match == "mismatch" and not (context.request.by_agent and self._preset_for(context.request) == "strict"):
            # Under `strict` such a call of an agent is held, with this code as the reason.
            message = (
                "the call, or what it would change, differs from what the preflight showed; the preflight is used up"
            )
            raise Rejected("PREFLIGHT_MISMATCH", message, "run a new preflight with preflight.run")

    async def _preflight_match(self, context: Context) -> PreflightMatch:
        """Use up the preflight that a call names, once, and return whether it is of exactly this call."""
        if self.desk is None:
            raise Unavailable("NOT_CONFIGURED", "this process cannot run preflights")
        if _PREFLIGHT not in context.found_out:
            context.found_out[_PREFLIGHT] = await self.desk.used_preflight(context)
        match: PreflightMatch = context.found_out[_PREFLIGHT]
        return match

    async def _found(self, context: Context, hold: Hold | None) -> HoldRequired | None:
        """Find what a call is about, before anybody is asked; return why it waits, and what of.

        What does not exist is refused as it would be if the call were made. What the call would start may have to wait
        by itself, for further people.
        """
        capability = context.capability
        try:
            if capability.find is not None:
                await capability.find(context, context.given)
        except HoldRequired as own:
            if hold is None or hold.reason == "requested":
                return own
            approvals = tuple(dict.fromkeys((*hold.approvals, *own.hold.approvals)))
            return HoldRequired(msgspec.structs.replace(hold, approvals=approvals), own.governance)
        return None if hold is None else HoldRequired(hold, capability.governance)

    def _may_wait(self, request: Request, governance: Governance) -> bool:
        """Whether a call may have to wait, as far as that can be said without looking anything up."""
        preset = self._preset_for(request)
        if request.intent is not None and (request.intent.wants_draft or request.intent.only_look):
            return governance.holdable
        if preset == "open" or request.from_inside or request.by_owner or not governance.holdable:
            return False
        if governance.draft != "never" or self._proposes(request, governance):
            return True
        by_agent = request.by_agent or governance.by_agent
        return by_agent and (preset == "strict" or governance.confirm or governance.risk in _DANGEROUS)

    def _proposes(self, request: Request, governance: Governance) -> bool:
        """Whether a call stores something that a person has to accept before it takes effect."""
        if governance.stores is None or request.from_inside or request.by_owner:
            return False
        rules = self._choices.authorship
        if runs_as_sent(request, governance, rules):
            return False
        if not rules.enforced and self._preset_for(request) != "open":
            rules = msgspec.structs.replace(rules, enforced=True)
        return has_to_propose(request.principal.kind, rules, by_model=request.by_model)

    def _preset_for(self, request: Request) -> Preset:
        """Return the preset that holds for a caller."""
        needs_grant = self.desk is not None and self.desk.needs_grant(request.principal)
        return "strict" if needs_grant else self._choices.preset

    async def _preview(self, context: Context, hold: Hold | None) -> Reply[Any]:
        if self.desk is None:
            raise Unavailable("NOT_CONFIGURED", "this process cannot run preflights")
        await rehearse(context)
        return await self.desk.preview(context, hold)

    async def hold_for(
        self, context: Context, governance: Governance, asked: tuple[Approval, ...] = (), *, changes: bool
    ) -> Hold | None:
        """Return why a call waits, given what it needs and whose approval is `asked` for; None if it does not.

        `policy.explain` asks this, too.
        """
        request = context.request
        if not asked and not self._may_wait(request, governance):
            return None
        proposes = self._proposes(request, governance)
        return await self.hold_of(context, facts_of(request, governance, changes=changes, proposes=proposes), asked)

    async def hold_of(self, context: Context, facts: CallFacts, asked: tuple[Approval, ...] = ()) -> Hold | None:
        """Return why a call waits; None if it is made now."""
        preset = self._preset_for(context.request)
        denied = None
        if facts.proposes or (preset == "strict" and facts.by_agent and facts.changes):
            denied = await self._denied(context, facts)
            context.found_out[GRANTED] = denied is None
        return hold_of(preset, facts, policy=asked, default=self._choices.approval, denied_code=denied)

    async def _denied(self, context: Context, facts: CallFacts) -> str | None:
        """Return why an agent may not make this change by itself."""
        desk, request = self.desk, context.request
        if desk is None:
            return "AUTO_EXECUTE_DISABLED"
        intent = request.intent or WriteIntent()
        match: PreflightMatch = "none"
        if intent.preflight_id is not None and not intent.only_look:
            match = await self._preflight_match(context)
        proof = WriteProof(
            preflight="matches" if intent.only_look else match,
            has_idempotency_key=request.idempotency_key is not None or intent.only_look,
            has_justification=bool(intent.justification) or intent.only_look,
        )
        return auto_execution_denied(
            context.capability.name, facts.risk, await desk.grants(context), proof, context.now_ms()
        )

    async def hold(self, context: Context, wanted: HoldRequired) -> Reply[Any]:
        """Hold a call, and return the answer for its caller. What would be refused anyway is refused now."""
        if self.holder is None:
            message = f"{context.capability.name} needs approval, and this process cannot hold calls"
            raise Unavailable("NOT_CONFIGURED", message, "send the call to a server (`penstock serve`)")
        await rehearse(context)
        binding = await binding_of(context, context.now_ms() + self._choices.draft_ms)
        pending = PendingCall(
            hold=wanted.hold, binding=binding, digest=digest_of(binding), governance=wanted.governance
        )
        return await self.holder.hold(context, pending)

    async def _release(self, context: Context, decided: Decided | None) -> None:
        """Refuse an approved call that is not what was approved any more. Runs directly before the effect."""
        approval = context.request.approval
        if approval is None:
            raise TypeError("only an approved call is released")
        if approval.expires_at <= context.now_ms():
            raise Conflict("APPROVAL_EXPIRED", "the approval has expired", _CHANGED)
        binding = await binding_of(context, approval.expires_at)
        enough = decided is None or is_approved(context.request, decided)
        if not enough or not compare_digest(digest_of(binding).encode(), approval.digest.encode()):
            names = reached_changes(approval.reach, reach_in(binding.state_witness))
            raise drifted(names, {"digest": approval.digest})
        context.call.note(outcome="executed")


def runs_as_sent(request: Request, governance: Governance, rules: AuthorshipRules) -> bool:
    """Whether a call only runs a definition that it sends along, for an MCP client whose key does not mark an agent.

    Such a run is decided as the call of an agent. What would take effect later, by a trigger or as a tool, is proposed.
    """
    definition = request.arguments.get("definition")
    return (
        rules.enforced
        and governance.stores == "sent_workflow"
        and request.surface == "mcp"
        and request.principal.kind != "agent"
        and not (rules.services_propose and request.principal.kind == "service")
        and not (isinstance(definition, dict) and (definition.get("triggers") or definition.get("expose")))
    )


def refuse_intent(capability: Capability, intent: WriteIntent) -> None:
    """Refuse to read something by a preflight, or only in some state: that would be said and not heeded."""
    if intent.preflight_id is not None:
        message = f"{capability.name} changes nothing, so it has no preflight"
        raise Rejected("PREFLIGHT_NOT_NEEDED", message, "call it without `preflight`")
    if intent.state_witness_hash is not None:
        raise _no_witness(capability)


def policy_approvals(decided: Decided | None) -> tuple[Approval, ...]:
    """Return whose approval the policies ask for; nobody's if they permit the call."""
    if decided is None or not isinstance(decided.outcome, ApprovalRequired):
        return ()
    return tuple(
        Approval(
            groups=item.approvers,
            count=item.quorum,
            not_requester=True,
            services=item.services,
            escalation=None
            if item.escalate_after_ms is None
            else Escalation(after_ms=item.escalate_after_ms, groups=item.escalate_to),
        )
        for item in decided.outcome.requirements
    )


def is_approved(request: Request, decided: Decided) -> bool:
    """Whether a call has every approval that the policies ask for now."""
    outcome = decided.outcome
    if not isinstance(outcome, ApprovalRequired):
        return True
    if request.approval is None:
        return False
    return approvals_suffice(outcome.requirements, [(vote.person, vote.groups) for vote in request.approval.votes])


def facts_of(request: Request, governance: Governance, *, changes: bool = True, proposes: bool = False) -> CallFacts:
    """Return what decides whether a call waits."""
    return CallFacts(
        changes=changes and not request.from_inside,
        by_agent=request.by_agent or governance.by_agent,
        by_owner=request.by_owner,
        risk=governance.risk,
        confirm=governance.confirm,
        draft=governance.draft,
        approval=governance.approval,
        wants_draft=request.intent is not None and request.intent.wants_draft,
        caller=request.principal.id,
        proposes=proposes,
    )


async def _check_witness(context: Context, expected: str) -> None:
    """Refuse a call whose caller looked at another state than the present one."""
    state = await state_of(context)
    if state is None:
        raise _no_witness(context.capability)
    if not compare_digest(value_digest(state).encode(), expected.encode()):
        raise Conflict(
            "WITNESS_MISMATCH",
            "the state has changed since you looked at it",
            "read the state again, and send its new hash",
        )


def _no_witness(capability: Capability) -> Conflict:
    message = f"{capability.name} has no state that a hash could represent"
    return Conflict("WITNESS_UNSUPPORTED", message, "leave the witness hash out")


async def binding_of(context: Context, expires_at: int) -> CallBinding:
    """Return what an approval of a call is bound to."""
    capability, principal = context.capability, context.principal
    return CallBinding(
        principal=principal.id,
        tenant=principal.tenant,
        capability=capability.name,
        schema_version=capability.schema_version,
        arguments=await _bound_arguments(context),
        state_witness=await state_of(context),
        policy_version=context.policy_version,
        expires_at=expires_at,
    )


async def state_of(context: Context) -> JsonValue:
    """Return the state that an approval of a call holds for: what it would change, and all that it can reach."""
    capability = context.capability
    own = None if capability.witness is None else await capability.witness(context, context.given)
    reach = None if context.holds is None else context.holds.reach
    if capability.reaches is None or reach is None:
        return own
    reached: JsonObject = {**await reach(context.tenant, capability.reaches(context.request.arguments))}
    if not reached:
        return own
    return {**own, REACHES: reached} if isinstance(own, dict) else {"kind": "reach", REACHES: reached}


def reach_in(witness: JsonValue) -> JsonObject | None:
    """Return what a call can reach, by name and version, from the state that it was held for."""
    found = witness.get(REACHES) if isinstance(witness, dict) else None
    return found if isinstance(found, dict) else None


def reached_changes(before: JsonObject | None, now: JsonObject | None) -> list[str]:
    """Return the names that have another version than before, are new, or are gone."""
    old, new = before or {}, now or {}
    return sorted(name for name in old.keys() | new.keys() if old.get(name, _NOTHING) != new.get(name, _NOTHING))


def drifted(names: list[str], details: JsonObject) -> Conflict:
    """Return the error for a call that is not what was approved any more; `names` have changed of what it reaches."""
    message = "what the call would do, or who has to approve it, has changed since it was approved"
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        message = f"what the call can reach has changed since it was proposed: {', '.join(names[:_NAMES_SHOWN])}{more}"
        details = {**details, "changed": list(names)}
    return Conflict("DRAFT_DRIFTED", message, _CHANGED, details)


async def _bound_arguments(context: Context) -> JsonValue:
    """Return the arguments with their defaults; secrets as keyed digests, which differ if the secrets differ."""
    capability, given = context.capability, context.given
    plain: JsonValue
    if isinstance(given, msgspec.Struct):
        plain = msgspec.json.decode(encode_bytes(given))  # lists, and nothing but JSON
    else:
        plain = apply_defaults(capability.input_schema, context.request.arguments)
    pepper = context.services.pepper
    hidden: JsonObject = {
        pointer: {"secretDigest": keyed_digest(pepper, b"argument\0" + canonical_json(value, exact_integers=True))}
        for pointer, value in (await argument_secrets(context, plain)).items()
    }
    return with_values(plain, hidden) if hidden else plain


async def argument_secrets(context: Context, arguments: JsonValue) -> dict[str, JsonValue]:
    """Return the secret parts of arguments by their JSON pointers, as the capability or its schema marks them."""
    capability = context.capability
    schema = load_schema(capability.input_schema)
    if isinstance(schema, CompiledSchema):
        found = secrets_in(schema, arguments)
        if capability.secrets is not None and isinstance(arguments, dict):
            found |= await capability.secrets(context, arguments)
        return found
    if secret_paths(capability.input_schema):
        raise Rejected("INVALID_ARGUMENTS", f"the schema of {capability.name} has secrets that cannot be found")
    return {}

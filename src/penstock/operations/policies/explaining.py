"""The operation that says what would happen to a call, and why: listed or not, permitted or not, by which policies.

Nothing is called. The answer is what the gate would decide now, for any principal of the tenant.

Above it: the catalogue. Below it: `targets`, the gate's stage for policies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, assert_never

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import NotFound, PenstockError
from penstock.base.scopes import missing_scope
from penstock.governance.policy.outcomes import ApprovalRequired, Forbidden, Permitted, PolicyOutcome
from penstock.governance.policy.redaction import path_text
from penstock.governance.policy.sets import PolicySet
from penstock.governance.policy.shapes import Unfit
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Context, Principal, Request
from penstock.operations.gate.holds import HoldRequired, policy_approvals
from penstock.operations.gate.policy_stage import Counting, Decided, Standpoint
from penstock.operations.policies.reading import stage_of
from penstock.operations.policies.targets import Called, find_called, meant_by
from penstock.runtime.tables.api_keys import list_keys

__all__ = ["OPERATIONS", "CallerKey", "ExplainedPrincipal", "explained_principal", "outcome_word"]

CallerKey = Annotated[str, Meta(description="The key that calls, by its id or name; you without it.")]
Word = Literal["permitted", "held", "forbidden", "approval", "scope_missing", "arguments_unfit"]
"""`held` waits by the preset or by what the document says, `approval` because a policy asks for it."""
# Where nobody can be asked: what acts there does so for somebody else, and is refused instead.
_NOBODY_WAITS = ("webhook", "schedule", "run")


class ExplainedPrincipal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody who may not exist."""

    id: str = "somebody"
    kind: Literal["person", "agent", "service", "local", "schedule", "webhook"] = "agent"
    scopes: Annotated[list[str], Meta(max_length=100)] = msgspec.field(default_factory=lambda: ["*"])
    groups: Annotated[list[str], Meta(max_length=50)] = []
    attributes: dict[str, str] = {}
    acting_for: Annotated[list[str], Meta(max_length=10)] = []
    subject: Annotated[str, Meta(max_length=limits.TOKEN_PRINCIPAL_CHARACTERS_MAX)] | None = None


class ExplainCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who calls what, with which arguments."""

    action: Annotated[
        str,
        Meta(
            description="An operation, a workflow, a tool, or `node:http` and the like.",
            max_length=300,
            examples=["refund_order"],
        ),
    ]
    arguments: Annotated[dict[str, Any], Meta(description="The arguments of the call.")] = {}
    key: CallerKey | None = None
    principal: Annotated[ExplainedPrincipal, Meta(description="Who calls, instead of a key.")] | None = None
    surface: Annotated[
        Literal["rest", "mcp", "cli", "sdk", "console", "webhook", "schedule", "run"],
        Meta(description="Where they call; `run` for a run that starts it as a child."),
    ] = "mcp"
    remote: Annotated[str, Meta(description="The address that they call from.", max_length=100)] | None = None


class ExplainedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen, and why."""

    action: str
    principal: str
    listed: bool
    listed_by: list[str]
    """The policies that decide whether it is listed."""
    call: Word
    policies: list[str]
    """The policies that decide about the call."""
    reasons: list[str]
    approvers: list[str]
    quorum: int | None
    missing_scope: str | None
    scopes: list[str]
    """The scopes that the call needs."""
    version: str | None
    held_because: str | None = None
    """Why the call waits: policy, draft, confirm, risk, agent_write; None if it does not."""
    shadow: str | None = None
    """What policies in shadow mode would have decided, if something else."""
    shadow_policies: list[str] = []
    hidden: list[str] = []
    """The fields of the answer that policies hide."""


def outcome_word(outcome: PolicyOutcome) -> Literal["permitted", "forbidden", "approval"]:
    """Return a decision as one word."""
    match outcome:
        case Permitted():
            return "permitted"
        case Forbidden():
            return "forbidden"
        case ApprovalRequired():
            return "approval"
        case _:
            assert_never(outcome)


@operation(
    "policy.explain",
    route=Route(method="POST", path="/policies/explain"),
    scopes=("policy:read",),
    reads=True,
    bucket="admin",
    subject="action",
    errors=("ACTION_NOT_FOUND", "KEY_NOT_FOUND"),
    examples=(Example(arguments={"action": "workflow.delete", "arguments": {"workflow_id": "hello"}}),),
)
async def policy_explain(context: Context, given: ExplainCall) -> ExplainedCall:
    """Explain what would happen to a call.

    Says whether the operation is in the caller's lists, and whether the call would be made, held or refused with these
    arguments. Names who would decide about it, and the policies that say so. Nothing is called.
    """
    stage = stage_of(context)
    principal = await explained_principal(context, given.key, given.principal)
    action, arguments = await meant_by(context, principal, given.action, given.arguments)
    given = msgspec.structs.replace(given, action=action, arguments=arguments)
    called = await find_called(context, given.action, given.arguments)
    missing = missing_scope(principal.scopes, called.scopes)
    policies = await stage.of(context.tenant)
    standpoint = Standpoint(surface=given.surface, remote=given.remote)
    if policies is None:
        explained = _explained(principal, called, missing, None, (missing is None, ()), None)
        return await _with_hold(context, given, principal, called, explained, None)
    seen = stage.list_context(policies, principal, standpoint)
    (listed,) = policies.listed(stage.entity(principal), [called.question], seen)
    because = policies.listed_because(stage.entity(principal), called.question, seen)
    try:
        history = await stage.history(policies, principal, called.target, given.arguments, Counting())
        standpoint = replace(standpoint, history=history)
        decided = stage.decide_action(policies, principal, called.target, given.arguments, standpoint)
    except Unfit as error:
        decided = Decided(unfit=str(error), version=policies.version)
    explained = _explained(principal, called, missing, policies, (listed and missing is None, because), decided)
    explained = await _with_hold(context, given, principal, called, explained, decided)
    hidden = stage.hidden_fields(policies, principal, called.target, standpoint)
    return msgspec.structs.replace(explained, hidden=[path_text(path) for path in hidden])


def _explained(  # the parts of one answer
    principal: Principal,
    called: Called,
    missing: str | None,
    policies: PolicySet | None,
    listed: tuple[bool, tuple[str, ...]],
    decided: Decided | None,
) -> ExplainedCall:
    outcome = None if decided is None else decided.outcome
    shadow = None if decided is None else decided.shadow
    word: Word = "permitted" if decided is None else "arguments_unfit"
    if outcome is not None:
        word = outcome_word(outcome)
    reasons = list(outcome.reasons) if isinstance(outcome, Forbidden) else []
    if decided is not None and decided.unfit is not None:
        reasons = [decided.unfit]
    asks = outcome if isinstance(outcome, ApprovalRequired) else None
    return ExplainedCall(
        action=called.target.action.name,
        principal=principal.id,
        listed=listed[0],
        listed_by=list(listed[1]),
        call="scope_missing" if missing is not None else word,
        policies=[] if outcome is None else list(outcome.policy_ids),
        reasons=reasons,
        approvers=[] if asks is None else list(asks.approvers),
        quorum=None if asks is None else asks.quorum,
        missing_scope=missing,
        scopes=list(called.scopes),
        version=None if policies is None else policies.version,
        shadow=None if shadow is None else outcome_word(shadow),
        shadow_policies=[] if shadow is None else list(shadow.policy_ids),
    )


async def _with_hold(  # the parts of one question
    context: Context,
    given: ExplainCall,
    principal: Principal,
    called: Called,
    explained: ExplainedCall,
    decided: Decided | None,
) -> ExplainedCall:
    """Return an explanation with why the call would wait, as the gate decides it."""
    if explained.call not in ("permitted", "approval") or given.surface in _NOBODY_WAITS or context.holds is None:
        return explained
    if not called.can_wait:
        return explained if explained.call == "permitted" else msgspec.structs.replace(explained, call="forbidden")
    capability, surface = called.capability or context.capability, given.surface
    request = Request(
        operation=capability.name, arguments=given.arguments, principal=principal, surface=surface, request_id=""
    )
    asking = msgspec.structs.replace(context, principal=principal, request=request, capability=capability)
    asked = policy_approvals(decided)
    own = called.capability.approvals if called.capability is not None else None
    try:
        converted = None if called.capability is None else called.capability.convert(given.arguments)
        if own is not None and not request.by_owner:
            asked = (*asked, *await own(asking, converted))
        hold = await context.holds.hold_for(asking, called.governance, asked, changes=called.changes)
        if hold is None and called.is_builtin and capability.find is not None:
            await capability.find(msgspec.structs.replace(asking, given=converted), converted)
    except HoldRequired as wanted:
        hold = wanted.hold
    except PenstockError:  # the arguments name nothing that exists, or not all of them were given
        hold = await context.holds.hold_for(asking, called.governance, asked, changes=called.changes)
    if hold is None:
        return explained
    needed = hold.approvals
    return msgspec.structs.replace(
        explained,
        call="approval" if hold.reason == "policy" else "held",
        held_because=hold.reason,
        approvers=list(dict.fromkeys(name for item in needed for name in (*item.groups, *item.users))),
        quorum=max(item.count for item in needed),
    )


async def explained_principal(context: Context, key: str | None, named: ExplainedPrincipal | None) -> Principal:
    """Return who is asked about: somebody who may not exist, the holder of a key, or the caller."""
    if named is not None:
        return Principal(
            id=named.id,
            tenant=context.tenant,
            kind=named.kind,
            scopes=frozenset(named.scopes),
            groups=frozenset(named.groups),
            attributes={**named.attributes},
            acting_for=tuple(named.acting_for),
            subject=named.subject,
        )
    return context.principal if key is None else await _holder(context, key)


async def _holder(context: Context, named: str) -> Principal:
    """Return the principal of a key of the tenant, by its id or its name."""
    cursor: str | None = None
    while True:
        page = await list_keys(
            context.services.platform, tenant=context.tenant, limit=limits.PAGE_LIMIT_MAX, cursor=cursor
        )
        found = next((row for row in page.rows if named in (row.key_id, row.name) and row.revoked_at is None), None)
        if found is not None:
            return principal_of(found)
        cursor = page.next_cursor
        if cursor is None:
            raise NotFound("KEY_NOT_FOUND", f"there is no key {named[:100]}", "list the keys with key.list")


OPERATIONS: tuple[Capability, ...] = (policy_explain,)

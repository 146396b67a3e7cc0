"""Operations on the policies that a tenant stores: documents with one or more policies, each checked before it is kept.

A tenant's policies only narrow what the server's permit. Whether a policy is enforced or only watched (`@mode`) decides
whether it protects anything, so changing that needs a right of its own, `policy:shadow`.

Above it: the catalogue. Below it: `reading`, `stored_resources`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, LimitExceeded
from penstock.base.scopes import scope_allows
from penstock.definitions.durations import format_duration
from penstock.governance.policy.source import Policy, PolicyProblem, parse_policies
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Deleted, IfMatch, instant
from penstock.operations.gate.context import Context
from penstock.operations.gate.policy_stage import POLICY_KIND
from penstock.operations.policies.reading import (
    PolicyProblemView,
    problem_views,
    read_policies,
    refuse_invalid,
    stage_of,
)
from penstock.operations.runs.proposals import AuthorView, ProposalView, author_view, proposals_of
from penstock.operations.stored_resources import ResourceTable, expected_etag
from penstock.runtime.ports.platform import ResourceRow

__all__ = ["OPERATIONS", "SHADOW_SCOPE"]

SHADOW_SCOPE = "policy:shadow"
_TABLE = ResourceTable(kind=POLICY_KIND, noun="policy", deleted_hint="store them with policy.put")
_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
_EXAMPLE = '@id("no-agents-at-night") forbid (principal is Agent, action in Action::"write", resource) when {\n' + (
    "  context.time.hour < 6\n};"
)
PolicyId = Annotated[str, Meta(description="The id of the document.", pattern=_ID_PATTERN, examples=["refunds"])]
PolicyText = Annotated[
    str,
    Meta(
        description="Policies in Cedar, each with an @id.", max_length=limits.POLICY_TEXT_CHARACTERS_MAX, min_length=1
    ),
]


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """One policy."""

    id: str
    effect: str
    mode: str
    description: str | None
    approvers: list[str]
    quorum: int
    source: str
    line: int
    escalate_after: str | None = None
    """After which time others may approve, too."""
    escalate_to: list[str] = []


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document with policies, as a tenant stored it."""

    id: str
    etag: str
    text: str
    policies: list[PolicyView]
    created_at: str | None
    updated_at: str | None
    updated_by: str | None
    author: AuthorView | None = None
    """Who wrote it. Policies of a tenant only forbid, so they apply even before a person accepts them."""
    problems: list[PolicyProblemView] = []
    """What was found when it was stored, or is wrong now: warnings only, unless a release changed the rules."""


class PolicyList(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides in a tenant."""

    version: str | None
    """Changes whenever a policy does; None if scopes alone decide."""
    server: list[PolicyView]
    """The policies that hold for all tenants."""
    items: list[PolicyDocument]
    """The documents that the tenant stored."""
    proposals: list[ProposalView] = []
    """Held calls that would store one."""


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing."""


class OnePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which document."""

    policy_id: PolicyId


class PutPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which document, and what is in it now."""

    policy_id: PolicyId
    text: PolicyText
    if_match: IfMatch = None


class DeletePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which document, and perhaps which version of it."""

    policy_id: PolicyId
    if_match: IfMatch = None


class CheckPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policies to check."""

    text: PolicyText
    server_wide: Annotated[
        bool, Meta(description="Whether they are for all tenants: those may permit, a tenant's only narrow.")
    ] = False


class CheckedPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Whether policies can be stored."""

    ok: bool
    policies: list[PolicyView]
    problems: list[PolicyProblemView]


def policy_view(policy: Policy) -> PolicyView:
    """Return a policy as callers see it."""
    asked = policy.annotations
    return PolicyView(
        id=policy.id,
        effect=policy.effect,
        mode=asked.mode,
        description=asked.description,
        approvers=list(asked.approvers),
        quorum=asked.quorum,
        source=policy.source,
        line=policy.line,
        escalate_after=None if asked.escalate_after_ms is None else format_duration(asked.escalate_after_ms),
        escalate_to=list(asked.escalate_to),
    )


def _view(context: Context, row: ResourceRow) -> PolicyDocument:
    text = str(row.body.get("text") or "")
    parsed = parse_policies(text, row.resource_id)
    problems = parsed.problems
    if not text:
        message = "the stored text is missing, so nothing is permitted; store the policies again or delete the document"
        problems = (PolicyProblem(message=message, source=row.resource_id),)
    return PolicyDocument(
        id=row.resource_id,
        etag=row.etag,
        text=text,
        policies=[policy_view(policy) for policy in parsed.policies],
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        updated_by=row.updated_by,
        author=author_view(context.services, row.author),
        problems=problem_views(problems),
    )


@operation(
    "policy.list", route=Route(method="GET", path="/policies"), scopes=("policy:read",), reads=True, bucket="admin"
)
async def policy_list(context: Context, given: Nothing) -> PolicyList:
    """List policies.

    Returns the policies of the server, which apply to all tenants, and the documents that your tenant stored.
    """
    stage = stage_of(context)
    policies = await stage.of(context.tenant)
    page = await _TABLE.page(context, limit=limits.POLICY_DOCUMENTS_PER_TENANT_MAX, cursor=None)
    return PolicyList(
        version=None if policies is None else policies.version,
        server=[policy_view(policy) for policy in stage.server],
        items=[_view(context, row) for row in page.rows],
        proposals=await proposals_of(context, "policy"),
    )


@operation(
    "policy.get",
    route=Route(method="GET", path="/policies/{policy_id}", etag=True),
    scopes=("policy:read",),
    reads=True,
    bucket="admin",
    subject="policy_id",
    errors=("POLICY_NOT_FOUND",),
)
async def policy_get(context: Context, given: OnePolicy) -> Reply[PolicyDocument]:
    """Get a policy document."""
    row = await _TABLE.find(context, given.policy_id)
    return Reply(value=_view(context, row), etag=row.etag)


@operation(
    "policy.put",
    route=Route(method="PUT", path="/policies/{policy_id}", headers={"If-Match": "if_match"}, etag=True),
    scopes=("policy:write",),
    idempotent=True,
    risk="high",
    stores="policy",
    bucket="admin",
    subject="policy_id",
    errors=("POLICY_INVALID", "POLICIES_LIMITED", "SCOPE_REQUIRED", "POLICY_NOT_FOUND", "PRECONDITION_FAILED"),
    examples=(Example(arguments={"policy_id": "agents", "text": _EXAMPLE}),),
)
async def policy_put(context: Context, given: PutPolicy) -> Reply[PolicyDocument]:
    """Store policies of your tenant.

    They apply from now on, and can only narrow what the server's policies permit: they are forbids, some of which may
    ask for an approval. All of them are checked first, and none is stored if one has a mistake. Changing which of them
    are enforced and which only watched (@mode) needs the scope policy:shadow.
    """
    stage = stage_of(context)
    page = await _TABLE.page(context, limit=limits.POLICY_DOCUMENTS_PER_TENANT_MAX, cursor=None)
    current = next((row for row in page.rows if row.resource_id == given.policy_id), None)
    if current is None and len(page.rows) >= limits.POLICY_DOCUMENTS_PER_TENANT_MAX:
        message = f"your tenant has {limits.POLICY_DOCUMENTS_PER_TENANT_MAX} documents with policies already"
        raise LimitExceeded("POLICIES_LIMITED", message, "put several policies into one document")
    beside = [
        policy
        for row in page.rows
        if row is not current
        for policy in parse_policies(str(row.body.get("text", "")), row.resource_id).policies
    ]
    read = await read_policies(
        context, [(given.policy_id, given.text)], tenant=context.tenant, of_tenant=True, beside=beside
    )
    refuse_invalid(read.problems)
    _refuse_switch(context, _view(context, current).policies if current is not None else [], read.policies)
    row = _TABLE.row(context, given.policy_id, {"text": given.text}, was=current)
    view = msgspec.structs.replace(_view(context, row), problems=problem_views(read.problems))
    reply = Reply(value=view, etag=row.etag)
    await _TABLE.store(context, row, expected_etag(given.if_match), reply)
    _changed(context, stage)
    return reply


def _refuse_switch(context: Context, before: list[PolicyView], after: tuple[Policy, ...]) -> None:
    """Refuse to change which policies are only watched, without the right to do so."""
    watched = {policy.id for policy in before if policy.mode == "shadow"}
    enforced = {policy.id for policy in before if policy.mode != "shadow"}
    switched = [policy.id for policy in after if policy.id in (enforced if policy.is_shadow else watched)]
    if switched and not scope_allows(context.principal.scopes, SHADOW_SCOPE):
        message = f"switching the policy {switched[0]} between enforced and watched needs the scope {SHADOW_SCOPE}"
        raise Denied("SCOPE_REQUIRED", message, "ask the owner for a key with that scope", {"scope": SHADOW_SCOPE})
    if switched:
        context.call.about(None, switched=[*switched])


def _changed(context: Context, stage: Any) -> None:
    stage.changed(context.tenant)
    # Tool lists depend on policies, so whoever watches them looks again.
    context.services.definitions_changed(context.tenant)


@operation(
    "policy.delete",
    route=Route(method="DELETE", path="/policies/{policy_id}", headers={"If-Match": "if_match"}),
    scopes=("policy:write",),
    destructive=True,
    idempotent=True,
    risk="high",
    bucket="admin",
    subject="policy_id",
    find=_TABLE.finder("policy_id"),
    errors=("POLICY_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def policy_delete(context: Context, given: DeletePolicy) -> Deleted:
    """Delete a policy document.

    What its policies forbade is allowed from now on, as far as other policies permit it.
    """
    stage = stage_of(context)
    answer = await _TABLE.delete(context, given.policy_id, given.if_match)
    _changed(context, stage)
    return answer


@operation(
    "policy.check",
    route=Route(method="POST", path="/policies/check"),
    scopes=("policy:read",),
    reads=True,
    bucket="admin",
    examples=(Example(arguments={"text": _EXAMPLE}),),
)
async def policy_check(context: Context, given: CheckPolicy) -> CheckedPolicy:
    """Check policies without storing them.

    Checks them against the schema of everything that can be called in your tenant, and lists every mistake with its
    line.
    """
    read = await read_policies(context, [("text", given.text)], tenant=context.tenant, of_tenant=not given.server_wide)
    return CheckedPolicy(
        ok=not any(item.severity == "error" for item in read.problems),
        policies=[policy_view(policy) for policy in read.policies],
        problems=problem_views(read.problems),
    )


OPERATIONS: tuple[Capability, ...] = (policy_list, policy_get, policy_put, policy_delete, policy_check)

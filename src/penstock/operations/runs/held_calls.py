"""Held calls: calls that wait for approval, each of them a durable run of a built-in workflow.

The workflow asks its question, waits for the votes, and then makes the call, at most once. So a held call can be
listed, waited for, answered and cancelled like any other run, and survives a crash. It belongs to the tenant of its
caller; its workflow belongs to no tenant and is in no list. The input of the run says what was held and is sealed with
the server's secret and the id of the run: neither another run with that input nor a fork of this one makes the call.

Above it: `app` gives the gate this `Holder`; `drafts` shows and makes held calls. Below it: `starting`, `results`, the
stage of the gate that decides what is held.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Unavailable
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.base.keyed_digests import keyed_digest
from penstock.base.lazy_import import lazy_import
from penstock.definitions.canonical import canonical_json
from penstock.definitions.jq.templates import SECRET_MASK
from penstock.definitions.model import Workflow
from penstock.definitions.secret_answers import with_values
from penstock.engine.approved import authors_of
from penstock.engine.outcomes import Accepted
from penstock.engine.state import RunState
from penstock.engine.values import plain_json
from penstock.governance.holds import Approval, HoldReason
from penstock.governance.principals import Principal, PrincipalKind, TokenReference
from penstock.operations.catalogue.capability import Reply
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context, NodeVisit, Services
from penstock.operations.gate.holds import PendingCall, argument_secrets
from penstock.operations.permissions.authorship import RunMarks
from penstock.operations.runs.results import ExecutionResult, HeldView, result_of
from penstock.operations.runs.starting import ExecuteWorkflow, new_run_id, started_run
from penstock.operations.runs.waits import HELD_PREFIX, question_views
from penstock.runtime.secrets import AnswerSeals

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = [
    "DEFINE_HELD",
    "HELD_LABEL",
    "HELD_MARK",
    "HELD_OWNER",
    "HELD_SERVER",
    "PROPOSED_NAME_LABEL",
    "PROPOSES_LABEL",
    "HeldCall",
    "HeldCalls",
    "approval_id",
    "held_call_of",
    "held_key",
    "held_name",
    "held_view",
    "held_workflow",
    "opened_arguments",
    "seals_of",
]

HELD_OWNER = "-held"
"""The owner of the workflows of held calls. No tenant can have this name."""
HELD_SERVER = "-gate"
"""The server that the `tool_call` node of such a workflow names: the gate itself. No setting can have this name."""
HELD_LABEL = "penstock.held"
"""The label of such a run. Callers cannot set labels that begin like this."""
HELD_MARK = "call"
"""The value of the label."""
PROPOSES_LABEL = "penstock.proposes"
"""The label of the run of a held call that would store something: its kind."""
PROPOSED_NAME_LABEL = "penstock.proposed_name"
"""The label of such a run with the name of what it would store, if the call says it."""
_NAME_CHARACTERS_MAX = 256
DEFINE_HELD = "draft.define"
"""The internal operation that stores the workflow of held calls."""
_WORKFLOWS_KEPT = 1_024

Define = Callable[[str, JsonObject], Awaitable[Any]]
"""Stores a workflow of held calls for a tenant's call, through the gate."""


class StoredPrincipal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made a held call, as its run keeps it. Their authority is looked up again when the call is made."""

    id: str
    kind: PrincipalKind
    scopes: list[str] = []
    groups: list[str] = []
    key_id: str | None = None
    name: str = ""
    toolset: str | None = None
    attributes: dict[str, Any] = {}
    acting_for: list[str] = []
    credential: str | None = None
    token: TokenReference | None = None
    owner: str | None = None
    subject: str | None = None
    lineage: list[str] = []
    accounts: list[str] = []

    @classmethod
    def of(cls, principal: Principal) -> StoredPrincipal:
        """Return a principal in its stored form."""
        return cls(
            id=principal.id,
            kind=principal.kind,
            scopes=sorted(principal.scopes),
            groups=sorted(principal.groups),
            key_id=principal.key_id,
            name=principal.name,
            toolset=principal.toolset,
            attributes=dict(principal.attributes),
            acting_for=list(principal.acting_for),
            credential=principal.credential,
            token=principal.token,
            owner=principal.owner,
            subject=principal.subject,
            lineage=list(principal.lineage),
            accounts=list(principal.accounts),
        )

    def principal(self, tenant: str) -> Principal:
        """Return the principal of a tenant as it was."""
        return Principal(
            id=self.id,
            tenant=tenant,
            kind=self.kind,
            scopes=frozenset(self.scopes),
            groups=frozenset(self.groups),
            key_id=self.key_id,
            name=self.name,
            toolset=self.toolset,
            attributes=self.attributes,
            acting_for=tuple(self.acting_for),
            credential=self.credential,
            token=self.token,
            owner=self.owner,
            subject=self.subject,
            lineage=tuple(self.lineage),
            accounts=tuple(self.accounts),
        )


class HeldCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is held: the input of the run."""

    operation: str
    title: str
    summary: str
    """The question that approvers see."""
    arguments: dict[str, Any]
    """The arguments as they were sent, without their secret parts."""
    secrets: dict[str, str] = {}
    """The secret parts by their JSON pointers, sealed by this server."""
    digest: str
    schema_version: str
    state_witness: Any = None
    policy_version: str | None = None
    expires_at: int
    reason: HoldReason
    risk: Literal["low", "medium", "high", "critical"] = "low"
    denied_code: str | None = None
    justification: str | None = None
    principal: StoredPrincipal
    surface: str
    request_id: str
    visit: NodeVisit | None = None
    """The visit of a node that made it; it is made only while that visit waits for it."""
    seal: str = ""


def held_workflow(name: str, approvals: tuple[Approval, ...], timeout_ms: int) -> Workflow:
    """Return the workflow of a held call. It differs by approvers: who decides cannot change later."""
    return _workflow(name, encode_bytes([_approvers(item) for item in approvals]), timeout_ms)


def approval_id(draft_id: str) -> str:
    """Return the id of the approval of a draft, for audit records."""
    return f"{draft_id}/approve"


def held_key(run_id: str) -> str:
    """Return the idempotency key under which a held call is made. No caller can send a key with a space."""
    return f"held {run_id}"


def held_name(capability: str) -> str:
    """Return the name of the workflow of held calls of a capability."""
    name = f"{HELD_PREFIX}{capability}"
    if len(name) <= limits.WORKFLOW_NAME_CHARACTERS_MAX:
        return name
    return f"{name[: limits.WORKFLOW_NAME_CHARACTERS_MAX - 9]}_{sha256(name.encode()).hexdigest()[:8]}"


def _approvers(approval: Approval) -> JsonObject:
    named = _named(approval.groups, approval.users)
    if approval.count != 1:
        named["count"] = approval.count
    named["not_requester"] = approval.not_requester
    if approval.services:
        named["services"] = True
    following = approval.escalation
    if following is not None:
        to = _named(following.groups, following.users)
        named["escalate"] = {"after": f"{following.after_ms}ms", "to": to, "instead": following.instead}
    return named


def _named(groups: tuple[str, ...], users: tuple[str, ...]) -> JsonObject:
    named: JsonObject = {}
    if len(groups) == 1:
        named["group"] = groups[0]
    elif groups:
        named["groups"] = list(groups)
    if users:
        named["users"] = list(users)
    return named


@lru_cache(maxsize=_WORKFLOWS_KEPT)
def _workflow(capability: str, approvals: bytes, timeout_ms: int) -> Workflow:
    stages: list[JsonObject] = msgspec.json.decode(approvals)
    names = ["approve", *(f"approve_{number}" for number in range(2, len(stages) + 1))]
    nodes: list[JsonValue] = []
    for name, following, approvers in zip(names, [*names[1:], "call"], stages, strict=True):
        nodes += _stage(name, following, approvers, timeout_ms)
    nodes += [
        {
            "id": "call",
            "type": "tool_call",
            "server": HELD_SERVER,
            "tool": capability,
            "arguments": {"digest": "${ .input.digest }"},
            "retry": {"max_attempts": 1},
            "effects": "at_most_once",
            "next": "done",
        },
        {"id": "done", "type": "end", "output": "${ .call.result }"},
        {"id": "rejected", "type": "fail", "code": "DRAFT_REJECTED", "message": "somebody rejected the call"},
        {"id": "expired", "type": "fail", "code": "DRAFT_EXPIRED", "message": "nobody approved the call in time"},
    ]
    return build.build_workflow({"penstock": "v1", "name": held_name(capability), "nodes": nodes})


def _stage(name: str, following: str, approvers: JsonObject, timeout_ms: int) -> list[JsonValue]:
    """Return the nodes that ask the people who have to agree next."""
    return [
        {
            "id": name,
            "type": "interrupt",
            "message": "${ .input.summary }",
            "answer": {
                "type": "object",
                "required": ["approved"],
                "properties": {"approved": {"type": "boolean", "title": "Approve this call"}},
                "additionalProperties": False,
            },
            "decline": {"approved": False},
            "approvers": approvers,
            "timeout": f"{timeout_ms}ms",
            "on_timeout": "expired",
        },
        {
            "id": f"after_{name}",
            "type": "switch",
            "cases": [{"when": f".{name}.approved", "next": following}],
            "default": "rejected",
        },
    ]


def _proposal_labels(context: Context) -> dict[str, str]:
    """Return the labels of a held call that would store something, by which lists find it."""
    kind, capability = context.capability.governance.stores, context.capability
    if kind is None:
        return {}
    marks: dict[str, str] = {PROPOSES_LABEL: "workflow" if kind == "sent_workflow" else kind}
    name = capability.authorization(context.request.arguments).resource_id
    return marks if not name else {**marks, PROPOSED_NAME_LABEL: name[:_NAME_CHARACTERS_MAX]}


class HeldCalls:
    """Holds calls as runs; implements `Holder`."""

    def __init__(self, services: Services, define: Define) -> None:
        self._services = services
        self._define = define

    async def hold(self, context: Context, pending: PendingCall) -> Reply[Any]:
        """Start the run that asks for approval, with the record of the call; return the answer for the caller."""
        hold, name = pending.hold, context.capability.name
        workflow = held_workflow(name, hold.approvals, self._services.holds.draft_ms)
        self._services.signatures.vouch(workflow.hash)
        known = await self._services.store.definitions.find_named(workflow.name, tenant=HELD_OWNER)
        if known is None or known.hash != workflow.hash:
            arguments: JsonObject = {
                "operation": name,
                "approvals": plain_json(hold.approvals),
                "timeout_ms": self._services.holds.draft_ms,
            }
            await self._define(context.tenant, arguments)
        chosen = new_run_id(context, None)
        held = await self._call(context, pending, chosen[0])
        draft_id = id_for_callers(context.tenant, chosen[0])
        context.call.note(outcome="held", reasons=(hold.reason,), draft_id=draft_id)
        context.call.about(None, digest=pending.digest)
        idempotency.answered_by(context, lambda decision: self._reply(context, decision))
        row = await started_run(
            context,
            ExecuteWorkflow(workflow_id=workflow.name, input=plain_json(held)),
            definition_hash=workflow.hash,
            chosen=chosen,
            marks=RunMarks(
                {HELD_LABEL: HELD_MARK, **_proposal_labels(context)},
                (*pending.governance.authors, *await self._authors_above(context)),
            ),
        )
        state = await self._services.host.read(row.run_id)
        if state is None:
            raise Unavailable("EXECUTION_NOT_FOUND", "the held call was deleted", "make the call again")
        return self._told(context, state)

    async def _authors_above(self, context: Context) -> tuple[str, ...]:
        """Return the agents that wrote the run which makes a call, if one does."""
        visit = context.request.visit
        state = None if visit is None else await self._services.host.read(visit.run_id)
        return () if state is None else authors_of(state.starter)

    def _reply(self, context: Context, decision: Accepted) -> Reply[Any]:
        return self._told(context, decision.state)

    def _told(self, context: Context, state: RunState) -> Reply[ExecutionResult]:
        """Return the answer for the caller of a held call: what waits, for whom, until when and how to look."""
        public, view = id_for_callers(context.tenant, state.run_id), held_view(self._services, state)
        result = result_of(context.tenant, state)
        if view is not None:
            result = msgspec.structs.replace(result, held=view)
        return Reply(value=result, status=202, location=f"/drafts/{public}")

    async def _call(self, context: Context, pending: PendingCall, run_id: str) -> HeldCall:
        request, capability, hold = context.request, context.capability, pending.hold
        secrets = await argument_secrets(context, request.arguments)
        shown = with_values(request.arguments, dict.fromkeys(secrets, SECRET_MASK)) if secrets else request.arguments
        seals = seals_of(self._services)
        held = HeldCall(
            operation=capability.name,
            title=capability.title,
            summary=_summary(context, pending, shown),
            arguments=shown if isinstance(shown, dict) else {},
            secrets={place: await seals.seal(context.tenant, value) for place, value in secrets.items()},
            digest=pending.digest,
            schema_version=pending.binding.schema_version,
            state_witness=pending.binding.state_witness,
            policy_version=pending.binding.policy_version,
            expires_at=pending.binding.expires_at,
            reason=hold.reason,
            risk=pending.governance.risk,
            denied_code=hold.denied_code,
            justification=request.intent.justification if request.intent is not None else None,
            principal=StoredPrincipal.of(context.principal),
            surface=request.surface,
            request_id=request.request_id,
            visit=None if request.visit is None else msgspec.structs.replace(request.visit, approved=None),
        )
        return msgspec.structs.replace(held, seal=_seal_of(self._services.pepper, run_id, held))


def seals_of(services: Services) -> AnswerSeals:
    """Return what seals secrets that an operation stores: with the server's own secret."""

    async def pepper() -> bytes:
        return services.pepper

    return AnswerSeals(pepper)


async def opened_arguments(services: Services, tenant: str, held: HeldCall) -> JsonObject:
    """Return the arguments of a held call with their secret parts. Only the call itself may use them."""
    if not held.secrets:
        return held.arguments
    seals = seals_of(services)
    opened = {place: await seals.open(tenant, seal) for place, seal in held.secrets.items()}
    found = with_values(held.arguments, opened)
    return found if isinstance(found, dict) else {}


def _seal_of(pepper: bytes, run_id: str, held: HeldCall) -> str:
    plain = plain_json(msgspec.structs.replace(held, seal=""))
    return keyed_digest(pepper, b"held call\0" + run_id.encode() + b"\0" + canonical_json(plain, exact_integers=True))


def held_call_of(state: RunState, pepper: bytes | None = None) -> HeldCall | None:
    """Return what a run holds; None if it holds nothing. With `pepper`, only if this server sealed it for this run."""
    try:
        held = msgspec.convert(state.input, HeldCall)
    except msgspec.ValidationError:
        return None
    if pepper is not None and not hmac.compare_digest(_seal_of(pepper, state.run_id, held), held.seal):
        return None
    return held


def held_view(services: Services, state: RunState) -> HeldView | None:
    """Return the view of a call that a run holds; None if it holds none."""
    held, public = held_call_of(state), id_for_callers(state.tenant, state.run_id)
    if held is None:
        return None
    return HeldView(
        draft_id=public,
        operation=held.operation,
        reason=held.reason,
        digest=held.digest,
        expires_at=instant(held.expires_at) or "",
        denied_code=held.denied_code,
        look=f"{services.base_path}/drafts/{public}",
        approvers=next((item.approvers for item in question_views(state)), None),
    )


def _summary(context: Context, pending: PendingCall, arguments: JsonValue) -> str:
    principal, governance = context.principal, pending.governance
    name = f"{principal.name} ({principal.id})" if principal.name else principal.id
    what = "a model" if context.request.by_model and principal.kind != "agent" else f"the {principal.kind}"
    text = msgspec.json.format(encode_bytes(arguments), indent=2).decode()
    if len(text) > limits.DRAFT_ARGUMENTS_CHARACTERS_SHOWN:
        text = f"{text[: limits.DRAFT_ARGUMENTS_CHARACTERS_SHOWN]}\n… (the draft has all of it)"
    lines = [
        f"May {what} {name} call {context.capability.name} ({context.capability.title}; risk {governance.risk})?",
        f"Arguments: {text}",
        f"Digest: {pending.digest}",
    ]
    intent = context.request.intent
    if intent is not None and intent.justification:
        lines.insert(1, f"Their justification: {intent.justification}")
    return "\n".join(lines)

"""Preflight: what a call would do, shown before it is made, with a handle for making exactly this call.

A preflight passes every stage of the gate that the call itself would pass, so it shows nothing that its caller could
not reach. The handle is bound to the digest of the call, to who asked, and to a time; it is used once.

Above it: the catalogue; the gate uses up handles through `DraftDeskAtGate`. Below it: the stage that holds calls, the
resources of the platform store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import Rejected, Unavailable
from penstock.base.json import JsonObject
from penstock.definitions.jq.templates import SECRET_MASK
from penstock.definitions.secret_answers import with_values
from penstock.governance.approvals import digest_of, value_digest
from penstock.governance.holds import Grant, Hold
from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import instant
from penstock.operations.drafts.grants import grants_of
from penstock.operations.gate.context import Context, WriteIntent
from penstock.operations.gate.holds import PreflightMatch, argument_secrets, binding_of
from penstock.operations.gate.outcomes import RefusedCall
from penstock.operations.permissions.apps import app_id_of
from penstock.runtime.ports.platform import ResourceDeleted, ResourceRow, body_etag
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.tables.resources import (
    delete_resource,
    list_resources,
    read_resource,
    replace_resource,
    write_deletions,
)

__all__ = ["OPERATIONS", "DraftDeskAtGate", "PreflightView"]

_KIND = "preflight"
# So many old handles are deleted whenever a new one is made.
_FORGOTTEN_AT_ONCE = 20


class RunPreflight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which call."""

    operation: Annotated[
        str, Meta(description="The operation, or `workflow:NAME` for a workflow.", min_length=1, max_length=300)
    ]
    arguments: Annotated[dict[str, Any], Meta(description="Its arguments.")] = {}


class PreflightView(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would do, and what making it takes."""

    preflight_id: str
    """The handle: it makes exactly this call, once, until `expires_at`."""
    operation: str
    title: str
    arguments: dict[str, Any]
    """As they were sent; secret parts are masked."""
    risk: str
    would: str
    """execute, or hold: then it waits for approval."""
    reason: str | None
    """Why it would wait."""
    denied_code: str | None
    """Why it would not be made at once, if it could be."""
    approvers: list[dict[str, Any]]
    impact: dict[str, Any]
    digest: str
    schema_version: str
    policy_version: str | None
    state_witness: Any
    state_witness_hash: str | None
    """The digest of the witness; a call that sends it is refused if the state has changed by then."""
    expires_at: str | None


class DraftDeskAtGate:
    """Shows calls before they are made, and knows grants and handles; implements `DraftDesk`."""

    def __init__(self, derived: Callable[[Context], Awaitable[tuple[Grant, ...]]] | None = None) -> None:
        self._derived = derived

    def needs_grant(self, principal: Principal) -> bool:
        """Whether what a principal changes waits unless a grant covers it: so for the keys of apps."""
        return self._derived is not None and app_id_of(principal.groups) is not None

    async def grants(self, context: Context) -> tuple[Grant, ...]:
        """Return the grants of the caller, those included that a surface makes from what it stores."""
        stored = await grants_of(context)
        return stored if self._derived is None else (*stored, *await self._derived(context))

    async def used_preflight(self, context: Context) -> PreflightMatch:
        """Use up the preflight that a call names, and return whether it is of exactly this call."""
        intent, platform = context.request.intent, context.services.platform
        handle = intent.preflight_id if intent is not None else None
        row = None if handle is None else await read_resource(platform, context.tenant, _KIND, handle[:200])
        until = row.body.get("expires_at") if row is not None else None
        if row is None or not isinstance(until, int) or until <= context.now_ms():
            raise _unknown()
        if row.body.get("principal") != context.principal.id:
            raise _unknown()
        outcome = await delete_resource(platform, context.tenant, _KIND, row.resource_id, expected_etag=row.etag)
        if not isinstance(outcome, ResourceDeleted):
            raise _unknown()
        binding = await binding_of(context, until)
        return "matches" if digest_of(binding) == row.body.get("digest") else "mismatch"

    async def preview(self, context: Context, hold: Hold | None) -> Reply[Any]:
        """Return what a call would do, with a handle for making it."""
        capability, request, services = context.capability, context.request, context.services
        expires_at = context.now_ms() + services.holds.preflight_ms
        binding = await binding_of(context, expires_at)
        digest = digest_of(binding)
        secrets = await argument_secrets(context, request.arguments)
        handle = await _kept(context, digest, expires_at, None if secrets else request.arguments)
        shown = with_values(request.arguments, dict.fromkeys(secrets, SECRET_MASK)) if secrets else request.arguments
        impact: JsonObject = {"summary": capability.title}
        subject = capability.authorization(request.arguments).resource_id
        if subject is not None:
            impact["subject"] = subject
        if capability.impact is not None:
            impact.update(await capability.impact(context, context.given))
        view = PreflightView(
            preflight_id=handle,
            operation=capability.name,
            title=capability.title,
            arguments=shown if isinstance(shown, dict) else {},
            risk=capability.governance.risk,
            would="execute" if hold is None else "hold",
            reason=None if hold is None else hold.reason,
            denied_code=None if hold is None else hold.denied_code,
            approvers=[] if hold is None else [msgspec.to_builtins(item) for item in hold.approvals],
            impact=impact,
            digest=digest,
            schema_version=binding.schema_version,
            policy_version=binding.policy_version,
            state_witness=binding.state_witness,
            state_witness_hash=None if binding.state_witness is None else value_digest(binding.state_witness),
            expires_at=instant(expires_at),
        )
        return Reply(value=view)


def _unknown() -> Rejected:
    message = "you have no such preflight: it was used, has expired, or never existed"
    return Rejected("PREFLIGHT_NOT_FOUND", message, "run a new preflight with preflight.run")


async def _kept(context: Context, digest: str, expires_at: int, arguments: JsonObject | None) -> str:
    """Store a handle, and delete some that have expired. Handles are ordered by when they expire."""
    platform, now = context.services.platform, context.now_ms()
    old = await list_resources(platform, context.tenant, _KIND, limit=_FORGOTTEN_AT_ONCE)
    times = {row.resource_id: row.body.get("expires_at") for row in old.rows}
    expired = [resource_id for resource_id, until in times.items() if isinstance(until, int) and until <= now]
    body: JsonObject = {"principal": context.principal.id, "digest": digest, "expires_at": expires_at}
    body["operation"] = context.capability.name
    if arguments is not None:  # secrets are not stored
        body["arguments"] = arguments
    handle = f"pfl_{expires_at:013x}_{context.services.new_id().removeprefix('r_')}"
    row = ResourceRow(
        tenant=context.tenant,
        kind=_KIND,
        resource_id=handle,
        body=body,
        etag=body_etag(body),
        created_at=now,
        updated_at=now,
        updated_by=context.principal.id,
    )

    def change(transaction: Transaction) -> None:
        write_deletions(transaction, context.tenant, _KIND, expired)
        replace_resource(transaction, row)

    await platform.write(change)
    return handle


def _named(arguments: JsonObject) -> str | None:
    name = arguments.get("operation")
    return name if isinstance(name, str) else None


@operation(
    "preflight.run",
    route=Route(method="POST", path="/preflights"),
    scopes=("preflight:run",),
    holdable=False,
    subject=_named,
    errors=(
        "NOT_CONFIGURED",
        "OPERATION_NOT_FOUND",
        "POLICY_DENIED",
        "PREFLIGHT_NOT_NEEDED",
        "PREFLIGHT_UNSUPPORTED",
        "WORKFLOW_NOT_FOUND",
    ),
    examples=(Example(arguments={"operation": "workflow:refund", "arguments": {"order_id": "A-1042", "amount": 180}}),),
)
async def preflight_run(context: Context, given: RunPreflight) -> PreflightView:
    """Preview a call without making it.

    Returns what the call would touch, who would have to approve it, a digest of exactly this call, and a handle. With
    the handle, the call can be made once. A preflight is refused where the call itself would be refused. Use it before
    a change that could do harm.
    """
    call = context.holds.call if context.holds is not None else None
    if call is None:
        raise Unavailable("NOT_CONFIGURED", "this process cannot run preflights")
    outcome = await call(
        msgspec.structs.replace(
            context.request,
            operation=given.operation,
            arguments=given.arguments,
            idempotency_key=None,
            intent=WriteIntent(only_look=True),
        )
    )
    if isinstance(outcome, RefusedCall):
        raise outcome.error
    view = outcome.reply.value
    if not isinstance(view, PreflightView):
        message = f"{given.operation} changes nothing, so it has no preflight"
        raise Rejected("PREFLIGHT_NOT_NEEDED", message, "call it directly")
    return view


OPERATIONS: tuple[Capability, ...] = (preflight_run,)

"""Legal holds on audit records, and erasing personal data in records that nothing holds.

A hold covers everything of a tenant, or what fits its conditions: a subject, a principal, a time. Retention and erasure
leave covered records alone until the hold is released. Both are calls like any other, with scopes of their own.

Above it: the catalogue. Below it: the resources of the platform store, `governance.audit.leaves`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, LimitExceeded, Rejected
from penstock.base.json import JsonObject
from penstock.governance.audit.chain import verified_leaf
from penstock.governance.audit.leaves import PERSONAL
from penstock.governance.audit.redactions import REDACT_AUDIT, redaction_claim
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Deleted, Limit, instant, milliseconds
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.stored_resources import ResourceTable
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditHold, AuditQuery, AuditRecord, ResourceRow
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.audit.removal import redact_audit
from penstock.runtime.tables.resources import list_resources

__all__ = ["OPERATIONS", "audit_holds"]

_HOLDS = ResourceTable(kind="audit_hold", noun="audit_hold")
Instant = Annotated[str, Meta(description="RFC 3339, e.g. 2026-01-31T09:00:00Z.", max_length=40)] | None
Personal = Literal["principal", "principal_name", "acting_for", "remote", "client", "subject"]


async def audit_holds(platform: Database, tenant: str) -> tuple[AuditHold, ...]:
    """Return the legal holds of a tenant."""
    rows = (await list_resources(platform, tenant, _HOLDS.kind, limit=limits.AUDIT_HOLDS_MAX)).rows
    return tuple(map(_hold_of, rows))


def _hold_of(row: ResourceRow) -> AuditHold:
    """Return the hold in a row. One that cannot be read holds everything until somebody releases it."""
    try:
        return msgspec.convert(row.body, AuditHold)
    except msgspec.ValidationError:
        return AuditHold(hold_id=row.resource_id, reason="the record of this hold cannot be read; it holds everything")


class HoldAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to hold, and why. Without conditions: everything."""

    reason: Annotated[str, Meta(description="Why, e.g. the number of a case.", min_length=1, max_length=500)]
    subject: Annotated[str, Meta(description="Only records about this thing.", min_length=1, max_length=200)] | None = (
        None
    )
    principal: (
        Annotated[str, Meta(description="Only records of this principal.", min_length=1, max_length=200)] | None
    ) = None
    since: Instant = None
    until: Instant = None


class HoldView(msgspec.Struct, frozen=True, kw_only=True):
    """A legal hold."""

    hold_id: str
    reason: str
    subject: str | None
    principal: str | None
    since: str | None
    until: str | None
    created_at: str | None
    created_by: str | None


class HoldPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of holds."""

    items: list[HoldView]
    next_cursor: str | None


class ListHolds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class ReleaseAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which hold."""

    hold_id: Annotated[str, Meta(description="The id of the hold.", min_length=1, max_length=100)]


class RedactAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records, by at least one condition, and which of their fields; in pieces of `limit` records."""

    principal: Annotated[str, Meta(description="Records of this principal.", min_length=1, max_length=200)] | None = (
        None
    )
    subject: Annotated[str, Meta(description="Records about this thing.", min_length=1, max_length=200)] | None = None
    seq: Annotated[int, Meta(description="The record with this number.", ge=1, le=2**53)] | None = None
    since: Instant = None
    until: Instant = None
    fields: Annotated[
        list[Personal], Meta(description="What to erase; without it everything personal.", min_length=1, max_length=6)
    ] = msgspec.field(default_factory=lambda: list[Personal](PERSONAL))  # type: ignore[arg-type]  # the same names
    limit: Annotated[int, Meta(description="How many records at most.", ge=1, le=500)] = 500
    after_seq: Annotated[int, Meta(description="Continue after this number.", ge=0, le=2**53)] = 0


class Redacted(msgspec.Struct, frozen=True, kw_only=True):
    """How many records changed. Held records, and records of earlier releases, stay as they were."""

    erased: int
    kept: int
    next_after_seq: int | None
    """Where to continue, if there are more."""


def _view(row: ResourceRow) -> HoldView:
    hold = _hold_of(row)
    return HoldView(
        hold_id=hold.hold_id,
        reason=hold.reason,
        subject=hold.subject,
        principal=hold.principal,
        since=instant(hold.since),
        until=instant(hold.until),
        created_at=instant(row.created_at),
        created_by=row.updated_by,
    )


@operation(
    "audit.hold",
    route=Route(method="POST", path="/audit/holds", status=201),
    scopes=("audit:hold",),
    bucket="admin",
    errors=("AUDIT_HOLDS_LIMIT", "PRECONDITION_FAILED"),
    examples=(Example(arguments={"reason": "case 4711", "subject": "refund_order"}),),
)
async def audit_hold(context: Context, given: HoldAudit) -> Reply[HoldView]:
    """Hold audit records.

    Until the hold is released, retention does not remove these records, and nobody can erase data in them.
    """
    if len(await audit_holds(context.services.platform, context.tenant)) >= limits.AUDIT_HOLDS_MAX:
        message = f"the tenant already has {limits.AUDIT_HOLDS_MAX} holds"
        raise LimitExceeded("AUDIT_HOLDS_LIMIT", message, "release one with audit.release")
    hold = AuditHold(
        hold_id=f"hold_{context.services.new_id().rpartition('_')[2]}",
        reason=given.reason,
        subject=given.subject,
        principal=given.principal,
        since=milliseconds(given.since, "since"),
        until=milliseconds(given.until, "until"),
    )
    body: JsonObject = msgspec.to_builtins(hold)
    row = _HOLDS.row(context, hold.hold_id, body)
    context.call.about(hold.hold_id)
    reply = Reply(value=_view(row), status=201)
    await _HOLDS.store(context, row, None, reply)
    return reply


@operation(
    "audit.holds",
    route=Route(method="GET", path="/audit/holds", query=("limit", "cursor")),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("INVALID_LIST_CURSOR",),
)
async def list_holds(context: Context, given: ListHolds) -> HoldPage:
    """List legal holds."""
    page = await _HOLDS.page(context, limit=given.limit, cursor=given.cursor)
    return HoldPage(items=[_view(row) for row in page.rows], next_cursor=page.next_cursor)


@operation(
    "audit.release",
    route=Route(method="DELETE", path="/audit/holds/{hold_id}"),
    scopes=("audit:hold",),
    destructive=True,
    risk="high",
    bucket="admin",
    subject="hold_id",
    find=_HOLDS.finder("hold_id"),
    errors=("AUDIT_HOLD_NOT_FOUND", "PRECONDITION_FAILED"),
)
async def audit_release(context: Context, given: ReleaseAudit) -> Deleted:
    """Release a legal hold.

    Retention and erasure apply to the records again.
    """
    return await _HOLDS.delete(context, given.hold_id, None)


@operation(
    REDACT_AUDIT,
    route=Route(method="POST", path="/audit/redactions"),
    scopes=("audit:redact",),
    destructive=True,
    risk="high",
    bucket="admin",
    errors=("AUDIT_TRAIL_BROKEN", "INVALID_ARGUMENTS"),
)
async def audit_redact(context: Context, given: RedactAudit) -> Redacted:
    """Erase personal data in audit records.

    The records and their hashes stay: the trail still verifies, and says that something was erased. The record of this
    call names the erased values by their hashes. This cannot be undone.
    """
    if given.principal is None and given.subject is None and given.seq is None:
        message = "the call names no records"
        raise Rejected("INVALID_ARGUMENTS", message, "send `principal`, `subject` or `seq`")
    platform = context.services.platform
    page = await list_audit(
        platform,
        AuditQuery(
            tenant=context.tenant,
            after_seq=max(given.after_seq, (given.seq or 1) - 1),
            before_seq=None if given.seq is None else given.seq + 1,
            principal=given.principal,
            subject=given.subject,
            since=milliseconds(given.since, "since"),
            until=milliseconds(given.until, "until"),
            oldest_first=True,
            limit=given.limit,
        ),
    )
    seqs = [record.seq for record in page.records]
    holds = await audit_holds(platform, context.tenant)
    free = [record for record in page.records if not any(hold.covers(record.entry) for hold in holds)]
    claims = await asyncio.to_thread(_claims, context.services.pepper, free, given.fields)
    context.call.about(None, fields=[*given.fields], records=len(seqs), commitments=claims)

    def answer(erased: int) -> Redacted:
        return Redacted(erased=erased, kept=len(seqs) - erased, next_after_seq=seqs[-1] if page.has_more else None)

    call = idempotency.answered_from(context, lambda erased: Reply(value=answer(erased)))
    return answer(
        await redact_audit(platform, tenant=context.tenant, seqs=seqs, names=given.fields, holds=holds, call=call)
    )


def _claims(pepper: bytes, records: Sequence[AuditRecord], names: Sequence[str]) -> JsonObject:
    """Return what the record of the call has to say: the commitments of what it erases, by record and field.

    What was erased before is named again, which puts redactions of earlier releases on record.
    """
    found: JsonObject = {}
    for record in records:
        if verified_leaf(pepper, record) is None:
            message = f"audit record {record.seq} does not match its seal, so nothing was erased"
            raise Conflict("AUDIT_TRAIL_BROKEN", message, "find the damage with audit.verify")
        if claim := redaction_claim(record.entry, names):
            found[str(record.seq)] = {**claim}
    return found


OPERATIONS: tuple[Capability, ...] = (audit_hold, list_holds, audit_release, audit_redact)

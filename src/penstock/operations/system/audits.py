"""Operations on the audit log: list, verify, export.

The audit log of a tenant is a chain: the hash of each record covers the record and the hash before it, under a key that
is not in the store. Verifying detects records that were altered, removed or moved.

Above it: the catalogue. Below it: the platform port, `governance.audit_chain`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, assert_never, get_type_hints

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, Rejected
from penstock.governance.audit_chain import ChainBroken, ChainHead, ChainVerified, verify_chain
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant, milliseconds
from penstock.operations.gate.audit_log import ANONYMOUS_TENANT, seal_with
from penstock.operations.gate.context import Context
from penstock.runtime.ports.platform import AuditEntry, AuditQuery, AuditRecord

__all__ = ["OPERATIONS"]

Instant = Annotated[str, Meta(description="RFC 3339, e.g. 2026-01-31T09:00:00Z.", max_length=40)] | None


# A view has every field of an entry but the tenant, which is the caller's; these have other types for callers.
_SHOWN = {"at": str | None, "outcome": str, "details": dict[str, Any]}
_ENTRY_TYPES = get_type_hints(AuditEntry)
_ENTRY_FIELDS = tuple(name for name in AuditEntry.__struct_fields__ if name != "tenant")
AuditRecordView: Any = msgspec.defstruct(
    "AuditRecordView",
    [
        ("seq", int),
        *((name, _SHOWN.get(name, _ENTRY_TYPES[name])) for name in _ENTRY_FIELDS),
        ("previous_hash", str),
        ("hash", str),
    ],
    namespace={"__doc__": "One record. `count` is above one when equal reads were gathered."},
    module=__name__,
    frozen=True,
    kw_only=True,
)


class AuditPageView(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records."""

    items: list[AuditRecordView]
    next_cursor: str | None


class ListAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records; everything given must hold."""

    operation: Annotated[str, Meta(description="Only this operation.", max_length=100)] | None = None
    principal: Annotated[str, Meta(description="Only this principal.", max_length=200)] | None = None
    subject: Annotated[str, Meta(description="Only calls about this thing.", max_length=200)] | None = None
    outcome: (
        Annotated[Literal["allowed", "refused", "failed"], Meta(description="Only calls that ended so.")] | None
    ) = None
    since: Instant = None
    until: Instant = None
    strangers: Annotated[
        bool, Meta(description="What was tried without a valid key, by anybody; for the owner of the server.")
    ] = False
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class VerifyAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What you know of the trail: a number and a hash that an earlier answer gave as `last_seq` and `last_hash`."""

    seq: Annotated[int, Meta(description="The number of a record that you kept.", ge=1, le=2**53)] | None = None
    hash: Annotated[str, Meta(description="The hash of that record.", max_length=64)] | None = None


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the chain holds; if not, the first record at which it does not, or which end is missing.

    Keep `last_seq` and `last_hash` elsewhere: with them a later call finds that the whole trail was put back.
    """

    intact: bool
    records: int
    last_seq: int | None
    last_hash: str | None
    first_seq: int | None = None
    broken_at: int | None = None
    reason: str | None = None


class ExportAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where to where; in pages of `limit`."""

    after_seq: Annotated[int, Meta(description="The number before the first record wanted.", ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(description="How many at most.", ge=1, le=10_000)] = 1_000


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Records oldest first, with everything that is needed to verify them elsewhere."""

    tenant: str
    items: list[AuditRecordView]
    has_more: bool


def _view(record: AuditRecord) -> Any:
    entry = record.entry
    members = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    members["at"] = instant(entry.at)
    return AuditRecordView(seq=record.seq, **members, previous_hash=record.previous_hash, hash=record.hash)


def _before(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(2**53))):
        raise Rejected("INVALID_LIST_CURSOR", "the cursor is not one of this list", "begin without a cursor")
    return int(cursor)


@operation(
    "audit.list",
    route=Route(
        method="GET",
        path="/audit",
        query=("operation", "principal", "subject", "outcome", "since", "until", "strangers", "limit", "cursor"),
    ),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("INVALID_LIST_CURSOR", "SCOPE_REQUIRED"),
    examples=(Example(arguments={"operation": "workflow.execute", "limit": 20}),),
)
async def audit_list(context: Context, given: ListAudit) -> AuditPageView:
    """List audit records.

    Who did what, when, from where, and what came of it; newest first, of your tenant. With `strangers` the calls that
    nobody could be found for: those with no valid key, and requests to addresses and webhooks that are not there.
    """
    if given.strangers and not context.is_operator:
        message = "only who owns everything in the default tenant may see what strangers tried"
        raise Denied("SCOPE_REQUIRED", message, "leave `strangers` out", {"scope": "*"})
    page = await context.services.platform.audit(
        AuditQuery(
            tenant=ANONYMOUS_TENANT if given.strangers else context.tenant,
            before_seq=_before(given.cursor),
            operation=given.operation,
            principal=given.principal,
            subject=given.subject,
            outcome=given.outcome,
            since=milliseconds(given.since, "since"),
            until=milliseconds(given.until, "until"),
            limit=given.limit,
        )
    )
    last = page.records[-1].seq if page.records and page.has_more else None
    return AuditPageView(
        items=[_view(record) for record in page.records], next_cursor=None if last is None else str(last)
    )


@operation(
    "audit.verify",
    route=Route(method="POST", path="/audit/verify"),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
)
async def audit_verify(context: Context, given: VerifyAudit) -> Verified:
    """Verify the audit trail.

    Recomputes the whole chain of your tenant, and says where it was altered, cut or reordered, if it was. Its two ends
    are sealed, so that records which are missing there are found too. With `seq` and `hash` of an earlier answer it
    also says whether the trail was put back to an older state as a whole.
    """
    services, tenant = context.services, context.tenant
    head = await services.platform.audit_head(tenant)
    walked = await _walked(context, given)
    if not walked.intact:
        return walked
    reason = await _end_missing(context, head, walked)
    if reason is None and given.seq is not None and (walked.last_seq or 0) < given.seq:
        reason = "rolled_back"
    return walked if reason is None else msgspec.structs.replace(walked, intact=False, reason=reason)


async def _walked(context: Context, given: VerifyAudit) -> Verified:
    """Verify that the records follow each other, and that the one that the caller knows is unchanged."""
    records, after, last_hash, first_seq = 0, 0, None, None
    while True:
        page = await context.services.platform.audit(
            AuditQuery(tenant=context.tenant, after_seq=after, oldest_first=True, limit=limits.HISTORY_PAGE_MAX)
        )
        expected = after + 1 if records else None
        outcome = verify_chain(
            context.services.pepper, page.records, expected_previous=last_hash, expected_seq=expected
        )
        known = next((record for record in page.records if record.seq == given.seq), None)
        if known is not None and given.hash is not None and known.hash != given.hash:
            outcome = ChainBroken(known.seq, "altered")
        found = Verified(intact=True, records=records, last_seq=after or None, last_hash=last_hash, first_seq=first_seq)
        match outcome:
            case ChainBroken(seq=seq, reason=reason):
                return msgspec.structs.replace(found, intact=False, broken_at=seq, reason=reason)
            case ChainVerified(count=count):
                records += count
                if page.records:
                    first_seq = first_seq or page.records[0].seq
                    after, last_hash = page.records[-1].seq, page.records[-1].hash
            case _:
                assert_never(outcome)
        if not page.has_more:
            return Verified(
                intact=True, records=records, last_seq=after or None, last_hash=last_hash, first_seq=first_seq
            )


async def _end_missing(context: Context, before: ChainHead | None, walked: Verified) -> str | None:
    """Return which end of a chain is not the sealed one; `before` is the head before the records were read."""
    platform, tenant, seal = context.services.platform, context.tenant, seal_with(context.services.pepper)
    if not context.services.audited or await platform.mark("audit_unsealed"):
        return None  # a file of an older release: the next record seals it
    after = await platform.audit_head(tenant)
    if before is None or after is None:
        if walked.records and after is None:
            return "head_missing"
    else:
        if not seal.holds(tenant, before) or not seal.holds(tenant, after):
            return "head_altered"
        if walked.first_seq not in (before.first_seq, after.first_seq):  # retention may delete old records meanwhile
            return "beginning_missing"
        if (walked.last_seq or 0) < before.last_seq or (
            walked.last_seq == after.last_seq and walked.last_hash != after.last_hash
        ):
            return "end_missing"
    chains = await platform.audit_chains()
    altered = chains.seal is not None and chains.seal != seal.count(chains.sealed or 0)
    return "chain_missing" if altered or chains.found != (chains.sealed or 0) else None


@operation(
    "audit.export",
    route=Route(method="GET", path="/audit/export", query=("after_seq", "limit")),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
)
async def audit_export(context: Context, given: ExportAudit) -> Export:
    """Export audit records.

    Oldest first and unfiltered, so that the chain can be verified elsewhere; go on after the last number while there
    is more.
    """
    page = await context.services.platform.audit(
        AuditQuery(tenant=context.tenant, after_seq=given.after_seq, oldest_first=True, limit=given.limit)
    )
    return Export(tenant=context.tenant, items=[_view(record) for record in page.records], has_more=page.has_more)


OPERATIONS: tuple[Capability, ...] = (audit_list, audit_verify, audit_export)

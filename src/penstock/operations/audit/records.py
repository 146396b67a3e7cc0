"""Operations that read the audit log: list and export.

An export has everything that a stranger needs to verify the trail with a public key: the records, what stands for
removed ones, and the checkpoints. `export_lines` brings a page into the form of a file.

Above it: the catalogue, the command line. Below it: `trail_parts`, `checkpoints`, the platform port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, Rejected
from penstock.base.json import JsonObject
from penstock.governance.audit.checkpoints import Checkpoint, parse_notes
from penstock.governance.audit.trail_lines import to_event
from penstock.governance.audit.trails import RemovedPart
from penstock.operations.audit.checkpoints import StoredCheckpoint, checkpoint_rows
from penstock.operations.audit.stamps import StoredStamp, has_stamps, stamp_of
from penstock.operations.audit.trail_parts import TrailGap, part_pages
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant, milliseconds
from penstock.operations.gate.audit_log import ANONYMOUS_TENANT
from penstock.operations.gate.context import Context
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import AuditEntry, AuditOutcome, AuditQuery, AuditRecord
from penstock.runtime.tables.audit.heads import find_audit_head
from penstock.runtime.tables.audit.records import list_audit

__all__ = ["OPERATIONS", "AuditRecordView", "Export", "export_lines", "record_view"]

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
    outcome: Annotated[AuditOutcome, Meta(description="Only calls that ended so.")] | None = None
    since: Instant = None
    until: Instant = None
    strangers: Annotated[
        bool, Meta(description="What was tried without a valid key, by anybody; for the owner of the server.")
    ] = False
    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class ExportAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where, in which form; in pages of `limit`."""

    after_seq: Annotated[int, Meta(description="The number before the first record wanted.", ge=0, le=2**53)] = 0
    strangers: Annotated[
        bool, Meta(description="What was tried without a valid key, by anybody; for the owner of the server.")
    ] = False
    format: Annotated[
        Literal["records", "cloudevents"], Meta(description="Plain records, or CloudEvents 1.0 in `events`.")
    ] = "records"
    limit: Annotated[int, Meta(description="How many records at most.", ge=1, le=10_000)] = 1_000


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """Records oldest first, with everything that is needed to verify them elsewhere."""

    tenant: str
    items: list[AuditRecordView]
    removed: list[RemovedPart]
    """The summaries of records that retention removed."""
    checkpoints: list[str]
    """The signed checkpoints among these records."""
    last_seq: int | None
    has_more: bool
    events: list[dict[str, Any]] = msgspec.field(default_factory=list)
    stamps: list[StoredStamp] = msgspec.field(default_factory=list)
    """The stamps of a time-stamping authority on these checkpoints, if there are any."""


def record_view(record: AuditRecord) -> Any:
    """Return a record as callers see it."""
    entry = record.entry
    members = {name: getattr(entry, name) for name in _ENTRY_FIELDS}
    members["at"] = instant(entry.at)
    return AuditRecordView(seq=record.seq, **members, previous_hash=record.previous_hash, hash=record.hash)


def _before(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(2**53))):
        raise Rejected(
            "INVALID_LIST_CURSOR",
            "the cursor does not come from this list",
            "leave `cursor` out to start from the first page",
        )
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

    Says who did what, when, from where, and with what result; newest first, for your tenant. With `strangers`, it
    returns the calls without a valid key, and requests to addresses and webhooks that do not exist.
    """
    page = await list_audit(
        context.services.platform,
        AuditQuery(
            tenant=_tenant(context, strangers=given.strangers),
            before_seq=_before(given.cursor),
            operation=given.operation,
            principal=given.principal,
            subject=given.subject,
            outcome=given.outcome,
            since=milliseconds(given.since, "since"),
            until=milliseconds(given.until, "until"),
            limit=given.limit,
        ),
    )
    last = page.records[-1].seq if page.records and page.has_more else None
    return AuditPageView(
        items=[record_view(record) for record in page.records], next_cursor=None if last is None else str(last)
    )


def _tenant(context: Context, *, strangers: bool) -> str:
    """Return the tenant whose trail the call asks to see; only the owner of the server may see other trails."""
    if strangers and not context.is_operator:
        message = "only an owner in the default tenant may see the calls of strangers"
        raise Denied("SCOPE_REQUIRED", message, "leave `strangers` out", {"scope": "*"})
    return ANONYMOUS_TENANT if strangers else context.tenant


@operation(
    "audit.export",
    route=Route(method="GET", path="/audit/export", query=("after_seq", "strangers", "format", "limit")),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("AUDIT_TRAIL_BROKEN", "SCOPE_REQUIRED"),
)
async def audit_export(context: Context, given: ExportAudit) -> Export:
    """Export audit records.

    Oldest first and unfiltered, with the signed checkpoints and the hashes of removed records, so that the trail can be
    verified elsewhere. While there is more, continue after `last_seq`.
    """
    platform, tenant = context.services.platform, _tenant(context, strangers=given.strangers)
    items: list[Any] = []
    removed: list[RemovedPart] = []
    last = given.after_seq
    head = await find_audit_head(platform, tenant)
    try:
        async for parts in part_pages(platform, tenant, after=given.after_seq):
            for part in parts:
                if len(items) == given.limit:
                    break
                if isinstance(part, RemovedPart):
                    removed.append(part)
                    last = part.last_seq
                else:
                    items.append(record_view(part))
                    last = part.seq
            if len(items) == given.limit:
                break
    except TrailGap as gap:
        message = f"the audit trail is broken: {gap}"
        raise Conflict("AUDIT_TRAIL_BROKEN", message, "find the damage with audit.verify") from gap
    checkpoints = await _checkpoints_between(platform, tenant, given.after_seq, last)
    page = Export(
        tenant=tenant,
        items=items,
        removed=removed,
        checkpoints=[checkpoint.note for checkpoint in checkpoints],
        stamps=await _stamps_of(platform, tenant, checkpoints),
        last_seq=last or None,
        has_more=head is not None and last < head.last_seq,
    )
    if given.format == "records":
        return page
    events = [to_event(line, source=f"{context.services.base_path}/audit") for line in export_lines(page)]
    return msgspec.structs.replace(page, items=[], removed=[], checkpoints=[], stamps=[], events=events)


async def _stamps_of(platform: Database, tenant: str, checkpoints: Sequence[StoredCheckpoint]) -> list[StoredStamp]:
    if not checkpoints or not await has_stamps(platform, tenant):
        return []
    stamps = [await stamp_of(platform, tenant, checkpoint.size) for checkpoint in checkpoints]
    return [stamp for stamp in stamps if stamp is not None]


async def _checkpoints_between(platform: Database, tenant: str, after: int, last: int) -> list[StoredCheckpoint]:
    """Return the checkpoints whose size is between two numbers, oldest first.

    That of the first number is among them: it may have been signed after an export that ended with this record.
    """
    found: list[StoredCheckpoint] = []
    cursor = None
    while True:
        page, cursor = await checkpoint_rows(platform, tenant, limit=limits.PLATFORM_PAGE_MAX, cursor=cursor)
        found += [checkpoint for checkpoint in page if (after or 1) <= checkpoint.size <= last]
        if cursor is None or page[-1].size < after:
            return found[::-1]


def export_lines(page: Export) -> list[JsonObject]:
    """Return a page as the lines of a JSONL file: records, removed stretches, checkpoints and stamps in order."""
    lines: list[tuple[int, JsonObject]] = [(view.seq, _line(page.tenant, view)) for view in page.items]
    for part in page.removed:
        members = {name: value for name, value in msgspec.structs.asdict(part).items() if value is not None}
        lines.append((part.last_seq, {"tenant": page.tenant, "removed": members}))
    for text in page.checkpoints:
        (note,) = parse_notes(text)
        lines.append((Checkpoint.parse(note.text).size, {"tenant": page.tenant, "checkpoint": text}))
    lines += [(stamp.size, {"tenant": page.tenant, "stamp": msgspec.to_builtins(stamp)}) for stamp in page.stamps]
    return [line for _, line in sorted(lines, key=lambda item: item[0])]


def _line(tenant: str, view: Any) -> JsonObject:
    members = {name: value for name, value in msgspec.to_builtins(view).items() if value is not None}
    return {"tenant": tenant, **members}


OPERATIONS: tuple[Capability, ...] = (audit_list, audit_export)

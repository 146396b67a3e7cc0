"""`approval.decided`: what people decided, in one list: held calls and questions of workflows.

The audit log says who decided what; the records of the run say what was asked. A decision stays in the list after its
run was removed, as long as its audit record is kept. A vote that did not decide is not in it.

Above it: the catalogue. Below it: `runs.decisions`, the platform port.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT, id_in_tenant
from penstock.base.scopes import scope_allows
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import Cursor, Limit, instant
from penstock.operations.drafts.views import draft_status
from penstock.operations.gate.context import Context
from penstock.operations.runs.decisions import DecisionView, decisions_in, with_names
from penstock.operations.runs.held_access import may_see_held
from penstock.operations.runs.held_calls import HELD_LABEL, held_call_of
from penstock.runtime.ports.audit import AuditEntry, AuditOutcome, AuditQuery, AuditRecord
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.tables.audit.records import list_audit

__all__ = ["OPERATIONS", "DecidedApproval", "DecidedPage"]

_READ_RUNS = "execution:read"
_DECISIONS: dict[AuditOutcome, Literal["approved", "declined"]] = {"approved": "approved", "rejected": "declined"}
# The question is nearly always this near before its answer; if it is not, it is left out.
_RECORDS_LOOKED_AT = 40


class ListDecided(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of them."""

    limit: Limit = limits.PAGE_LIMIT_DEFAULT
    cursor: Cursor = None


class DecidedApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was approved or declined."""

    kind: Literal["call", "question"]
    """A held call, or a question of a workflow."""
    id: str
    """The draft of a held call, or the run that asked."""
    title: str
    """What would be called, or the workflow that asked."""
    decision: DecisionView
    status: str | None
    """The result: the status of the draft, or of the run; null if the run was removed."""


class DecidedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, newest first. It may have fewer than `limit`, and even none, while others follow."""

    items: list[DecidedApproval]
    next_cursor: str | None


@operation(
    "approval.decided",
    route=Route(method="GET", path="/approvals/decided", query=("limit", "cursor")),
    scopes=("draft:read",),
    reads=True,
    errors=("INVALID_LIST_CURSOR",),
    examples=(Example(arguments={"limit": 20}),),
)
async def approval_decided(context: Context, given: ListDecided) -> DecidedPage:
    """List what was approved or declined.

    Each entry says who decided, when, and what the result was. Questions of workflows are included if you may read
    runs; the decision is null where a policy hides fields of the workflow from you.
    """
    records, cursor = await _decisions_on_record(context, given)
    found = [item for record in records if (item := await _view_decided(context, record)) is not None]
    named = await with_names(context, [item.decision for item in found])
    items = [replace(item, decision=decision) for item, decision in zip(found, named, strict=True)]
    return DecidedPage(items=items, next_cursor=cursor)


async def _decisions_on_record(context: Context, given: ListDecided) -> tuple[list[AuditRecord], str | None]:
    """Return the audit records of a page of decisions, and where the next one begins."""
    before = _sequence(given.cursor)
    found: list[AuditRecord] = []
    more = False
    for outcome in _DECISIONS:
        query = AuditQuery(tenant=context.tenant, outcome=outcome, before_seq=before, limit=given.limit)
        page = await list_audit(context.services.platform, query)
        found += page.records
        more = more or page.has_more
    found.sort(key=lambda record: record.seq, reverse=True)
    shown = found[: given.limit]
    return shown, str(shown[-1].seq) if shown and (more or len(found) > len(shown)) else None


def _sequence(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= len(str(2**53))):
        raise Rejected(
            "INVALID_LIST_CURSOR",
            "the cursor does not come from this list",
            "leave `cursor` out to start from the first page",
        )
    return int(cursor)


async def _view_decided(context: Context, record: AuditRecord) -> DecidedApproval | None:
    """Return the decision in an audit record, as far as the caller may know of it."""
    entry, services = record.entry, context.services
    if entry.details.get("final") is False:
        return None
    kind: Literal["call", "question"] = "question" if entry.draft_id is None else "call"
    public = entry.draft_id or entry.run_id or entry.subject or ""
    if kind == "question" and not scope_allows(context.principal.scopes, _READ_RUNS):
        return None
    row = await _row(context, public)
    state = None if row is None else await services.host.read(row.run_id)
    if row is None or state is None:
        if context.principal.kind == "agent":
            return None  # whether it may know of it cannot be found out any more
        return DecidedApproval(kind=kind, id=public, title=public, decision=_told(entry), status=None)
    held = held_call_of(state) if HELD_LABEL in row.labels else None
    if (held is None) != (kind == "question") or (held is not None and not may_see_held(context.principal, held)):
        return None
    return DecidedApproval(
        kind=kind,
        id=public,
        title=row.workflow_name if held is None else held.title or held.operation,
        decision=await _recorded(context, row, entry) or _told(entry),
        status=row.status if held is None else draft_status(state),
    )


async def _row(context: Context, public: str) -> RunRow | None:
    store, tenant = context.services.store, context.tenant
    row = await store.row(id_in_tenant(tenant, public))
    if row is None and tenant != DEFAULT_TENANT:
        row = await store.row(public)
    return row if row is not None and row.tenant == tenant else None


async def _recorded(context: Context, row: RunRow, entry: AuditEntry) -> DecisionView | None:
    """Return the decision as the run has it, with what was asked."""
    sequence = entry.details.get("sequence")
    if not isinstance(sequence, int) or sequence > row.seq:
        return None
    first = max(sequence - _RECORDS_LOOKED_AT, 0)
    records = await context.services.host.history(row.run_id, after_seq=first, limit=sequence - first)
    found = next((item for item in decisions_in(records) if item.sequence == sequence), None)
    return found if found is None or found.by == entry.principal else None


def _told(entry: AuditEntry) -> DecisionView:
    """Return the decision as the audit log has it."""
    named, sequence = entry.details.get("interrupt_id"), entry.details.get("sequence")
    return DecisionView(
        interrupt_id=named if isinstance(named, str) else "",
        node_id="",
        visit=0,
        sequence=sequence if isinstance(sequence, int) else 0,
        decision=_DECISIONS[entry.outcome],
        by=entry.principal,
        name=entry.principal_name or "",
        at=instant(entry.at),
        final=True,
    )


OPERATIONS: tuple[Capability, ...] = (approval_decided,)

"""Proofs about single records and between checkpoints, for people who do not have the whole trail.

Above it: the catalogue. Below it: `trail_parts`, `checkpoints`, `governance.audit.tree`.
"""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.base.errors import Conflict, NotFound, Rejected
from penstock.governance.audit.chain import verified_leaf
from penstock.governance.audit.leaves import entry_fields
from penstock.governance.audit.redactions import REDACT_AUDIT, RedactionLedger
from penstock.governance.audit.tree import RangeHasher, consistency_ranges, inclusion_ranges
from penstock.operations.audit.checkpoints import (
    CHECKPOINT_KIND,
    StoredCheckpoint,
    newest_checkpoint,
)
from penstock.operations.audit.records import AuditRecordView, record_view
from penstock.operations.audit.trail_parts import TrailGap, checkpoint_id, leaf_pages
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.runtime.ports.audit import AuditQuery, AuditRecord
from penstock.runtime.stored_bodies import decode_body
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.resources import read_resource

__all__ = ["OPERATIONS"]

# Records of redactions that are read at a time; each may name hundreds of records.
_REDACTIONS = 20
Size = Annotated[int, Meta(description="The size of a checkpoint; without one, the newest.", ge=1, le=2**53)]


class ProveRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which record, and in which checkpoint."""

    seq: Annotated[int, Meta(description="The number of the record.", ge=1, le=2**53)]
    size: Size | None = None


class InclusionProof(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and the proof that the checkpoint covers it. Hashes are base64, as in RFC 6962."""

    tenant: str
    record: AuditRecordView
    redacted_in: int | None
    """The record that says what was erased in this one, if something was. Ask for its proof, too."""
    leaf: str
    index: int
    """The number of the leaf: one less than that of the record."""
    size: int
    proof: list[str]
    checkpoint: str


class ProveConsistency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two checkpoints."""

    from_size: Annotated[int, Meta(description="The size of the earlier checkpoint.", ge=1, le=2**53)]
    size: Size | None = None


class ConsistencyProof(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that a later checkpoint only added records to an earlier one."""

    from_size: int
    size: int
    proof: list[str]
    from_checkpoint: str
    checkpoint: str


@operation(
    "audit.proof",
    route=Route(method="GET", path="/audit/records/{seq}/proof", query=("size",)),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    subject=lambda arguments: str(arguments.get("seq")),
    errors=("AUDIT_CHECKPOINT_NOT_FOUND", "AUDIT_RECORD_NOT_FOUND", "AUDIT_TRAIL_BROKEN"),
)
async def audit_proof(context: Context, given: ProveRecord) -> InclusionProof:
    """Prove that a record is in the signed trail.

    The answer has the record, the checkpoint and the hashes that connect them. They convince anyone who has the public
    key, without showing any other record.
    """
    platform, tenant = context.services.platform, context.tenant
    checkpoint = await _checkpoint(context, given.size)
    query = AuditQuery(tenant=tenant, after_seq=given.seq - 1, before_seq=given.seq + 1, limit=1)
    records = (await list_audit(platform, query)).records
    if not records:
        message = f"there is no audit record {given.seq}"
        raise NotFound(
            "AUDIT_RECORD_NOT_FOUND", message, "list the records with audit.list; retention may have removed it"
        )
    if given.seq > checkpoint.size:
        message = f"the checkpoint of {checkpoint.size} records does not cover record {given.seq}"
        raise NotFound("AUDIT_CHECKPOINT_NOT_FOUND", message, "sign the trail with audit.checkpoint first")
    (record,) = records
    proof = await _hashes(context, inclusion_ranges(given.seq - 1, checkpoint.size), checkpoint.size)
    leaf = verified_leaf(context.services.pepper, record)
    if leaf is None:
        raise _broken(f"record {record.seq} is not what was sealed")
    return InclusionProof(
        tenant=tenant,
        record=record_view(record),
        redacted_in=await _redacted_in(context, record),
        leaf=base64.b64encode(leaf).decode(),
        index=given.seq - 1,
        size=checkpoint.size,
        proof=proof,
        checkpoint=checkpoint.note,
    )


@operation(
    "audit.consistency",
    route=Route(method="GET", path="/audit/consistency", query=("from_size", "size")),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("AUDIT_CHECKPOINT_NOT_FOUND", "AUDIT_TRAIL_BROKEN", "INVALID_ARGUMENTS"),
)
async def audit_consistency(context: Context, given: ProveConsistency) -> ConsistencyProof:
    """Prove that a checkpoint continues an earlier one.

    The proof shows that no record that the earlier checkpoint covers was changed or removed since: the trail only grew.
    """
    earlier, later = await _checkpoint(context, given.from_size), await _checkpoint(context, given.size)
    if earlier.size > later.size:
        message = f"the checkpoint of {earlier.size} records is not earlier than that of {later.size}"
        raise Rejected("INVALID_ARGUMENTS", message, "name the smaller one as from_size")
    return ConsistencyProof(
        from_size=earlier.size,
        size=later.size,
        proof=await _hashes(context, consistency_ranges(earlier.size, later.size), later.size),
        from_checkpoint=earlier.note,
        checkpoint=later.note,
    )


async def _checkpoint(context: Context, size: int | None) -> StoredCheckpoint:
    platform, tenant = context.services.platform, context.tenant
    if size is None:
        newest = await newest_checkpoint(platform, tenant)
        if newest is not None:
            return newest
        message = "the trail has no checkpoint yet"
    else:
        row = await read_resource(platform, tenant, CHECKPOINT_KIND, checkpoint_id(size))
        if row is not None:
            return decode_body(row, StoredCheckpoint)
        message = f"the trail has no checkpoint of {size} records"
    raise NotFound("AUDIT_CHECKPOINT_NOT_FOUND", message, "list them with audit.checkpoints")


async def _hashes(context: Context, ranges: list[tuple[int, int]], size: int) -> list[str]:
    """Return the hashes of ranges of leaves, in one pass over the trail."""
    hasher, index = RangeHasher(ranges), 0
    try:
        async for leaves in leaf_pages(context.services.platform, context.tenant, upto=size):
            hasher.add(index, leaves)
            index += len(leaves)
        return [base64.b64encode(found).decode() for found in hasher.hashes()]
    except (TrailGap, ValueError) as error:
        raise _broken(str(error)) from error


async def _redacted_in(context: Context, record: AuditRecord) -> int | None:
    """Return the number of the record that says the last of what was erased; refuse if no record says so."""
    if record.entry.redacted is None:
        return None
    ledger, after = RedactionLedger(), record.seq
    ledger.add(record.seq, entry_fields(record.entry))
    while True:
        query = AuditQuery(
            tenant=context.tenant, operation=REDACT_AUDIT, after_seq=after, oldest_first=True, limit=_REDACTIONS
        )
        page = await list_audit(context.services.platform, query)
        for claim in page.records:
            if verified_leaf(context.services.pepper, claim) is None:
                raise _broken(f"record {claim.seq} is not what was sealed")
            ledger.add(claim.seq, entry_fields(claim.entry))
            after = claim.seq
        found = ledger.redactions()[0]
        if found.recorded_in is not None:
            return found.recorded_in
        if not page.has_more:
            raise _broken(f"{', '.join(found.fields)} of record {record.seq} erased, and no record says so")


def _broken(reason: str) -> Conflict:
    return Conflict("AUDIT_TRAIL_BROKEN", f"the trail is broken: {reason}", "find the damage with audit.verify")


OPERATIONS: tuple[Capability, ...] = (audit_proof, audit_consistency)

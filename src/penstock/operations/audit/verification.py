"""Verifies the audit trail with the server's secret: every seal, both ends of every chain, and every checkpoint.

The owner of a server finds the exact record that was altered. A stranger, who has only the public key, verifies an
export (`governance.audit.trails`) and finds it between two checkpoints.

Above it: the catalogue. Below it: `trail_parts`, `checkpoints`, the platform port, `governance.audit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, NamedTuple, assert_never

import msgspec
from msgspec import Meta

from penstock.base import limits
from penstock.base.errors import Denied, Rejected
from penstock.governance.audit.chain import ChainBroken, ChainHead, ChainVerified, RemovedRecords, verify_chain
from penstock.governance.audit.checkpoints import Checkpoint, Note, VerifierKey, parse_notes, tenant_of, trusted_keys
from penstock.governance.audit.leaves import entry_fields
from penstock.governance.audit.trails import Allowances, RemovedPart, TrailReport, TrailVerifier
from penstock.operations.audit.checkpoints import checkpoint_rows, key_statements
from penstock.operations.audit.trail_parts import TrailGap, TrailPart, part_pages
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.audit_log import seal_with
from penstock.operations.gate.context import Context
from penstock.runtime.ports.audit import AuditQuery, AuditRecordUnreadable
from penstock.runtime.tables.audit.heads import count_audit_chains, find_audit_head
from penstock.runtime.tables.audit.records import list_audit, list_audit_tenants
from penstock.runtime.tables.audit.removal import list_removed_audit
from penstock.runtime.tables.resources import read_mark

__all__ = ["OPERATIONS"]

# Removed stretches that are read at a time; each has up to 32 kB.
_STRETCHES = 50


class VerifyAudit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What you know of the trail: a number and a hash that an earlier answer gave, or checkpoints that you kept."""

    seq: Annotated[int, Meta(description="The number of a record that you kept.", ge=1, le=2**53)] | None = None
    hash: Annotated[str, Meta(description="The hash of that record.", max_length=64)] | None = None
    against: Annotated[
        str, Meta(description="Signed checkpoints that you kept, one after another.", max_length=1_000_000)
    ] = ""
    all_tenants: Annotated[
        bool | None,
        Meta(description="The trails of all tenants; for the owner of the server, who gets them by default."),
    ] = None
    allow_uncovered: Annotated[
        bool, Meta(description="Accept that checkpoints are missing which records say were signed.")
    ] = False
    allow_unrecorded_redactions: Annotated[
        bool,
        Meta(description="Accept erased fields that no record names with their hashes, as earlier releases left them."),
    ] = False


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the trail is intact; if not, the first record at which it is not, or which end is missing.

    Keep a checkpoint elsewhere: with it a later call finds that the whole trail was put back. `last_seq`, `last_hash`
    and `first_seq` are of your own trail, `broken_at` and `reason` of the one in `broken_tenant`.
    """

    intact: bool
    records: int
    last_seq: int | None
    last_hash: str | None
    first_seq: int | None = None
    broken_at: int | None = None
    reason: str | None = None
    broken_tenant: str | None = None
    tenants: int = 1
    checkpoints: int = 0
    """Signed checkpoints that fit the records."""
    removed: int = 0
    """Records that retention removed, and whose hashes fit the checkpoints."""
    redacted: int = 0
    """Records in which personal data was erased."""
    unrecorded_redactions: int = 0
    """Those of them that no record names with the hashes of what was erased."""
    anchor_at: str | None = None
    """When the newest of the checkpoints that you gave was signed."""


class _Trail(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one trail."""

    tenant: str
    records: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    last_hash: str | None = None
    broken_at: int | None = None
    reason: str | None = None


@operation(
    "audit.verify",
    route=Route(method="POST", path="/audit/verify"),
    scopes=("audit:read",),
    reads=True,
    bucket="admin",
    errors=("AUDIT_CHECKPOINT_INVALID", "SCOPE_REQUIRED"),
)
async def audit_verify(context: Context, given: VerifyAudit) -> Verified:
    """Verify the audit trail.

    Recomputes the whole chain of your tenant, or of all tenants if you own the server, and says where it was altered,
    cut or reordered. Both ends are sealed, so missing records there are found too. Personal data counts as erased only
    if a later record says so, and every signed checkpoint must exist. With checkpoints that you kept elsewhere, or with
    `seq` and `hash` of an earlier answer, it also finds out whether the whole trail was reset to an older state.
    """
    if given.all_tenants and not context.is_operator:
        message = "only an owner in the default tenant may verify the trails of other tenants"
        raise Denied("SCOPE_REQUIRED", message, "leave `all_tenants` out", {"scope": "*"})
    anchors, keys = _anchors(given.against), await _trusted(context)
    everything = context.is_operator if given.all_tenants is None else given.all_tenants
    known = await list_audit_tenants(context.services.platform) if everything else ()
    tenants = dict.fromkeys((context.tenant, *known, *(tenant_of(item.origin) for item, _ in anchors)))
    if not everything:
        tenants = dict.fromkeys([context.tenant])
    found: list[tuple[_Trail, TrailReport]] = []
    for tenant in tenants:
        trail = await _verified_trail(context, tenant, given if tenant == context.tenant else VerifyAudit())
        own = [item for item in anchors if tenant_of(item[0].origin) == tenant]
        allowed = Allowances(uncovered=given.allow_uncovered, unrecorded_redactions=given.allow_unrecorded_redactions)
        found.append((trail, await _compared(context, _Comparison(tenant, keys, own, allowed))))
    return _summary(found, anchors)


def _summary(found: Sequence[tuple[_Trail, TrailReport]], anchors: Sequence[tuple[Checkpoint, Note]]) -> Verified:
    own = found[0][0]
    verified = Verified(
        intact=True,
        records=sum(trail.records for trail, _ in found),
        first_seq=own.first_seq,
        last_seq=own.last_seq,
        last_hash=own.last_hash,
        tenants=sum(1 for trail, _ in found if trail.records) or 1,
        checkpoints=sum(report.checkpoints for _, report in found),
        removed=sum(report.removed for _, report in found),
        redacted=sum(report.redacted for _, report in found),
        unrecorded_redactions=sum(report.unrecorded_redactions for _, report in found),
        anchor_at=max((item.at for item, _ in anchors if item.at is not None), default=None),
    )
    for trail, report in found:
        broken_at, reason = trail.broken_at, trail.reason
        if reason is None and report.problems:
            broken_at, reason = report.problems[0].seq, report.problems[0].kind
        if reason is not None:
            return msgspec.structs.replace(
                verified, intact=False, broken_at=broken_at, reason=reason, broken_tenant=trail.tenant
            )
    return verified


def _anchors(text: str) -> list[tuple[Checkpoint, Note]]:
    try:
        return [(Checkpoint.parse(note.text), note) for note in parse_notes(text)]
    except ValueError as error:
        message = f"against: {error}"
        raise Rejected(
            "AUDIT_CHECKPOINT_INVALID", message, "send checkpoints exactly as audit.checkpoint returned them"
        ) from error


async def _trusted(context: Context) -> frozenset[VerifierKey]:
    """Return the keys of this server, the current one and earlier ones."""
    keys = context.services.audit_keys
    if keys is None or not keys.exists():
        return frozenset()
    statements = [note for text in await key_statements(context.services.platform) for note in parse_notes(text)]
    return trusted_keys([(await keys.signing_key()).verifier], statements)


class _Comparison(NamedTuple):
    """With what a trail is compared."""

    tenant: str
    keys: frozenset[VerifierKey]
    anchors: Sequence[tuple[Checkpoint, Note]]
    allowed: Allowances


async def _compared(context: Context, given: _Comparison) -> TrailReport:
    """Compare a trail with its checkpoints, in the store or kept by the caller, and with what its records say."""
    checkpoints = [*given.anchors]
    cursor = None
    while True:
        page, cursor = await checkpoint_rows(
            context.services.platform, given.tenant, limit=limits.PLATFORM_PAGE_MAX, cursor=cursor
        )
        checkpoints += [(Checkpoint.parse(note.text), note) for item in page for note in parse_notes(item.note)]
        if cursor is None:
            break
    verifier = TrailVerifier(given.tenant, given.keys, checkpoints, is_sealed=True, allowed=given.allowed)
    try:
        async for parts in part_pages(context.services.platform, given.tenant):
            await asyncio.to_thread(_add_parts, verifier, parts)
    except TrailGap:
        pass  # the verifier misses what comes after it
    except AuditRecordUnreadable as error:
        verifier.add_unreadable(error.seq, error.reason)
    return verifier.report()


def _add_parts(verifier: TrailVerifier, parts: Sequence[TrailPart]) -> None:
    for part in parts:
        if isinstance(part, RemovedPart):
            verifier.add_removed(part)
        else:
            verifier.add_record(part.seq, entry_fields(part.entry), part.previous_hash, part.hash)


async def _verified_trail(context: Context, tenant: str, given: VerifyAudit) -> _Trail:
    head = await find_audit_head(context.services.platform, tenant)
    try:
        walked = await _walked(context, tenant, given)
    except AuditRecordUnreadable as error:
        return _Trail(tenant=tenant, broken_at=error.seq, reason="unreadable")
    if walked.reason is not None:
        return walked
    reason = await _end_missing(context, head, walked)
    if reason is None and given.seq is not None and (walked.last_seq or 0) < given.seq:
        reason = "rolled_back"
    return walked if reason is None else msgspec.structs.replace(walked, reason=reason)


async def _walked(context: Context, tenant: str, given: VerifyAudit) -> _Trail:
    """Verify that the records follow each other, and that the one that the caller knows is unchanged."""
    found = _Trail(tenant=tenant)
    while True:
        after = found.last_seq or 0
        page = await list_audit(
            context.services.platform,
            AuditQuery(tenant=tenant, after_seq=after, oldest_first=True, limit=limits.HISTORY_PAGE_MAX),
        )
        if not page.records:
            return found
        first, last = page.records[0], page.records[-1]
        outcome = await asyncio.to_thread(
            verify_chain,
            context.services.pepper,
            page.records,
            expected_previous=found.last_hash,
            expected_seq=after + 1 if found.records else None,
            removed=await _removed_between(context, tenant, after or first.seq, last.seq),
        )
        known = next((record for record in page.records if record.seq == given.seq), None)
        if known is not None and given.hash is not None and known.hash != given.hash:
            outcome = ChainBroken(known.seq, "altered")
        match outcome:
            case ChainBroken(seq=seq, reason=reason):
                return msgspec.structs.replace(found, broken_at=seq, reason=reason)
            case ChainVerified(count=count):
                found = _Trail(
                    tenant=tenant,
                    records=found.records + count,
                    first_seq=found.first_seq or first.seq,
                    last_seq=last.seq,
                    last_hash=last.hash,
                )
            case _:
                assert_never(outcome)
        if not page.has_more:
            return found


async def _removed_between(context: Context, tenant: str, after: int, last_seq: int) -> dict[int, RemovedRecords]:
    """Return what retention removed between two records, by its first number, if the seal holds; without the leaves."""
    seal = seal_with(context.services.pepper)
    found: dict[int, RemovedRecords] = {}
    while stretches := await list_removed_audit(context.services.platform, tenant, after_seq=after, limit=_STRETCHES):
        sealed = (item for item in stretches if seal.holds_removed(tenant, item))
        found.update({item.first_seq: msgspec.structs.replace(item, leaves=b"") for item in sealed})
        after = stretches[-1].last_seq
        if after >= last_seq:
            break
    return found


async def _end_missing(context: Context, before: ChainHead | None, walked: _Trail) -> str | None:
    """Return which end of a chain is not the sealed one; `before` is the head before the records were read."""
    platform, tenant, seal = context.services.platform, walked.tenant, seal_with(context.services.pepper)
    if not context.services.audited or await read_mark(platform, "audit_unsealed"):
        return None  # a file of an older release: the next record seals it
    after = await find_audit_head(platform, tenant)
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
    chains = await count_audit_chains(platform)
    altered = chains.seal is not None and chains.seal != seal.count(chains.sealed or 0)
    return "chain_missing" if altered or chains.found != (chains.sealed or 0) else None


OPERATIONS: tuple[Capability, ...] = (audit_verify,)

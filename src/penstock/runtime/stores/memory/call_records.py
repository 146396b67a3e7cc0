"""What a call stores, in memory: audit chains, and the state of each idempotency key.

Both stores in memory share one instance, as the tables of a file share its transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.governance.audit.chain import GENESIS_HASH, ChainHead, RemovedRecords
from penstock.governance.audit.leaves import entry_leaf
from penstock.runtime.ports.database import is_change
from penstock.runtime.ports.platform import (
    AuditEntry,
    AuditRecord,
    CallRecord,
    Claimed,
    ClaimOutcome,
    Finished,
    IdempotencyClaim,
    InFlight,
    Seal,
)
from penstock.runtime.stores.memory.usage import MemoryUsage
from penstock.runtime.tables.outcomes import check_text, claim_lost

__all__ = ["MemoryCallRecords"]

T = TypeVar("T")
_CallName: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that is in flight until its lease ends, or a finished one that is kept until it expires."""

    digest: str
    until: int
    answer: JsonObject | None


@dataclass(slots=True)
class MemoryCallRecords:
    """Calls by tenant, principal, operation and key; audit records by tenant. `before_audit` lets tests fail."""

    before_audit: Callable[[], None] = lambda: None
    chains: dict[str, list[AuditRecord]] = field(default_factory=dict)
    heads: dict[str, ChainHead] = field(default_factory=dict)
    removed: dict[str, list[RemovedRecords]] = field(default_factory=dict)
    usage: MemoryUsage = field(default_factory=MemoryUsage)
    _calls: dict[_CallName, _Call] = field(default_factory=dict)

    # --- with a change ---------------------------------------------------------------------------

    def check(self, call: CallRecord | None) -> None:
        """Refuse the change of a call whose record cannot be stored together with it."""
        if call is None:
            return
        if not self._can_hold(call):
            raise claim_lost()
        if self._sealed(call):
            self.before_audit()

    def keep(self, call: CallRecord | None, outcome: object = None) -> None:
        """Store the record of a call after its change was made; `outcome` is what the change led to."""
        if call is None:
            return
        call.changed(outcome)
        if call.seal is not None:
            self._link(self._sealed(call), call.seal)
        if call.claim is not None and (call.answer is not None or not call.stored):
            until = call.claim.in_flight_until if call.answer is None else call.claim.keep_until
            self._calls[_name(call.claim)] = _Call(call.claim.digest, until, call.answer)
        call.committed()

    def keep_if_changed(self, outcome: T, call: CallRecord | None) -> T:
        """Store the record of a call if the outcome says that something changed. Returns the outcome."""
        if is_change(outcome):
            self.keep(call, outcome)
        return outcome

    def record(self, call: CallRecord) -> ClaimOutcome:
        """Store the record of a call that changed nothing, or return the state of the other call with the same key."""
        if not self._can_hold(call) and call.claim is not None:
            kept = self._calls[_name(call.claim)]
            return InFlight(kept.digest, kept.until) if kept.answer is None else Finished(kept.digest, kept.answer)
        self.check(call)
        self.keep(call)
        return Claimed()

    # --- idempotency keys ------------------------------------------------------------------------

    def stored(self, claim: IdempotencyClaim) -> InFlight | Finished | None:
        """The state of another call with this key; None if the key is free."""
        kept = self._calls.get(_name(claim))
        if kept is None:
            return None
        if kept.answer is None:
            return InFlight(kept.digest, kept.until)
        return None if kept.until < claim.now else Finished(kept.digest, kept.answer)

    def release(self, claim: IdempotencyClaim) -> None:
        """Free the key of a call that did not happen."""
        if _name(claim) in self._calls and self._is_free_or_own(claim):
            del self._calls[_name(claim)]

    def forget(self, *, now: int, limit: int) -> int:
        """Drop expired calls; those without an answer later."""
        unanswered = now - limits.IDEMPOTENCY_UNANSWERED_MS
        past = sorted(
            (call.until, name)
            for name, call in self._calls.items()
            if call.until < (unanswered if call.answer is None else now)
        )[:limit]
        for _, name in past:
            del self._calls[name]
        return len(past)

    def _can_hold(self, call: CallRecord) -> bool:
        if call.claim is None or (call.stored and call.answer is None):
            return True
        if call.stored:
            # A finished call may store a newer answer.
            return self._is_free_or_own(call.claim) or self._is_answered_by(call.claim)
        kept = self._calls.get(_name(call.claim))
        return kept is None or kept.until < call.claim.now

    def _is_free_or_own(self, claim: IdempotencyClaim) -> bool:
        kept = self._calls.get(_name(claim))
        return kept is None or (kept.answer is None and kept.until == claim.in_flight_until)

    def _is_answered_by(self, claim: IdempotencyClaim) -> bool:
        kept = self._calls.get(_name(claim))
        return kept is not None and kept.until == claim.keep_until

    # --- audit -----------------------------------------------------------------------------------

    def append(self, entries: Sequence[AuditEntry], seal: Seal) -> None:
        """Append to the chains of the entries' tenants, all or none."""
        self.before_audit()
        self._link(self._numbered(entries, seal), seal)

    def _link(self, records: Sequence[AuditRecord], seal: Seal) -> None:
        for record in records:
            self.chains.setdefault(record.entry.tenant, []).append(record)
        for tenant in {record.entry.tenant for record in records}:
            self.seal_head(tenant, seal)

    def remove(self, tenant: str, records: Sequence[AuditRecord], seal: Seal) -> None:
        """Remove records of a chain. Only their leaves stay, one stretch for each."""
        stretches = [
            RemovedRecords(
                first_seq=record.seq,
                last_seq=record.seq,
                previous_hash=record.previous_hash,
                last_hash=record.hash,
                leaves=entry_leaf(record.entry, record.seq),
            )
            for record in records
        ]
        sealed = [*self.removed.get(tenant, []), *(seal.removed(tenant, stretch) for stretch in stretches)]
        self.removed[tenant] = sorted(sealed, key=lambda stretch: stretch.first_seq)
        gone = {record.seq for record in records}
        self.chains[tenant] = [record for record in self.chains[tenant] if record.seq not in gone]
        self.seal_head(tenant, seal)

    def seal_head(self, tenant: str, seal: Seal) -> None:
        """Seal the two ends of a chain as it is now."""
        first, last = self.chains[tenant][0], self.chains[tenant][-1]
        self.heads[tenant] = seal.head(tenant, (first.seq, first.previous_hash), (last.seq, last.hash))

    def _sealed(self, call: CallRecord) -> list[AuditRecord]:
        return [] if call.seal is None else self._numbered(call.entries, call.seal)

    def _numbered(self, entries: Sequence[AuditEntry], seal: Seal) -> list[AuditRecord]:
        heads = {tenant: (chain[-1].seq, chain[-1].hash) for tenant, chain in self.chains.items()}
        records: list[AuditRecord] = []
        for entry in entries:
            check_text(entry)
            last_seq, previous_hash = heads.get(entry.tenant, (0, GENESIS_HASH))
            sealed = seal(previous_hash, last_seq + 1, entry)
            records.append(AuditRecord(seq=last_seq + 1, entry=entry, previous_hash=previous_hash, hash=sealed))
            heads[entry.tenant] = (last_seq + 1, sealed)
        return records


def _name(claim: IdempotencyClaim) -> _CallName:
    return claim.tenant, claim.principal, claim.operation, claim.key

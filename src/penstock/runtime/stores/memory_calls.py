"""Idempotent calls in memory: who is at it, and what was answered.

Above it: the stores in memory, which share one of these as the tables of a file share its transactions. Below it:
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.json import JsonObject
from penstock.runtime.platform import Claimed, ClaimOutcome, Finished, IdempotencyClaim, InFlight, Receipt
from penstock.runtime.stores.platform_rules import claim_lost

__all__ = ["MemoryCalls"]

_CallName: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Call:
    """In flight until a moment, or answered and kept until one."""

    digest: str
    until: int
    answer: JsonObject | None


@dataclass(slots=True)
class MemoryCalls:
    """Calls by tenant, principal, operation and key."""

    _calls: dict[_CallName, _Call] = field(default_factory=dict)

    def claim(self, claim: IdempotencyClaim) -> ClaimOutcome:
        """Be the one call with a key, or learn what became of the other."""
        kept = self._calls.get(_name(claim))
        if kept is None or kept.until < claim.now:
            self._calls[_name(claim)] = _Call(claim.digest, claim.in_flight_until, None)
            return Claimed()
        return InFlight(kept.digest, kept.until) if kept.answer is None else Finished(kept.digest, kept.answer)

    def complete(self, claim: IdempotencyClaim, answer: JsonObject) -> None:
        """Keep the answer, unless the claim was lost to another call."""
        if self._is_free_or_own(claim):
            self._calls[_name(claim)] = _Call(claim.digest, claim.keep_until, answer)

    def check(self, receipt: Receipt | None) -> None:
        """Refuse the change that a receipt tells of once another call has its claim."""
        if receipt is not None and not self._is_free_or_own(receipt.claim):
            raise claim_lost()

    def keep(self, receipt: Receipt | None) -> None:
        """Keep the answer that tells of a change."""
        if receipt is not None:
            self.complete(receipt.claim, receipt.answer)

    def release(self, claim: IdempotencyClaim) -> None:
        """The call did not happen."""
        if _name(claim) in self._calls and self._is_free_or_own(claim):
            del self._calls[_name(claim)]

    def forget(self, *, now: int, limit: int) -> int:
        """Drop what is past its time."""
        past = sorted((call.until, name) for name, call in self._calls.items() if call.until < now)[:limit]
        for _, name in past:
            del self._calls[name]
        return len(past)

    def _is_free_or_own(self, claim: IdempotencyClaim) -> bool:
        kept = self._calls.get(_name(claim))
        return kept is None or (kept.answer is None and kept.until == claim.in_flight_until)


def _name(claim: IdempotencyClaim) -> _CallName:
    return claim.tenant, claim.principal, claim.operation, claim.key

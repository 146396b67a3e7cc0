"""Rate limits of known callers: how many calls a minute, and how many at once.

A call counts against every bucket that it concerns, all of them or none: that of its principal for this kind of call,
that of its tenant, and those that the operator set for the capability. Reads and lists count like everything else, and
so do calls that are refused: each costs an audit record. Buckets hold ten seconds' worth; `sharing` lets several
processes keep them together.

Above it: `pipeline`, the surfaces. Below it: `governance.rates`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.base.json import JsonObject
from penstock.governance.principals import Principal, PrincipalKind
from penstock.governance.rates import BucketKey, Empty, Rate, TokenBuckets
from penstock.operations.catalogue.capability import Bucket, Capability
from penstock.operations.gate.chosen_limits import GateLimits

__all__ = ["RATE_CODES", "RateLimiter", "burst_text", "rate_details"]

RATE_CODES = frozenset({"RATE_LIMITED", "CONCURRENCY_LIMITED"})
"""The codes of refusals that pass by themselves, within seconds."""

# The process itself calls as one of these. No outside caller can, so they need no rate limit.
_INSIDE: frozenset[PrincipalKind] = frozenset({"system", "schedule"})
_WHO = {
    "principal": "with one key",
    "tenant": "by one tenant",
    "capability": "of this operation with one key",
    "tenant_capability": "of this operation by one tenant",
}


def _rate(per_minute: float) -> Rate:
    return Rate.of(per_minute, limits.RATE_BURST_SECONDS)


class RateLimiter:
    """Counts the calls of principals."""

    def __init__(self, chosen: GateLimits) -> None:
        self._of_principal: dict[Bucket, Rate] = {
            "read": _rate(chosen.read_per_minute),
            "write": _rate(chosen.write_per_minute),
            "admin": _rate(chosen.admin_per_minute),
        }
        of_tenant: dict[Bucket, int | None] = {
            "read": chosen.tenant_read_per_minute,
            "write": chosen.tenant_write_per_minute,
            "admin": chosen.tenant_admin_per_minute,
        }
        self._of_tenant = {bucket: _rate(rate) for bucket, rate in of_tenant.items() if rate is not None}
        self._of_capability = {
            name: (
                None if of_one.per_minute is None else _rate(of_one.per_minute),
                None if of_one.tenant_per_minute is None else _rate(of_one.tenant_per_minute),
            )
            for name, of_one in chosen.capabilities.items()
        }
        self._concurrent_max = chosen.concurrent_per_key
        self.buckets = TokenBuckets(limits.RATE_BUCKETS_MAX, shared=True)
        self._in_flight: dict[str, int] = {}

    def charge(self, principal: Principal, name: str, bucket: Bucket, now_ms: int) -> None:
        """Count a call; raise `LimitExceeded` with the time to wait. Calls from inside are free."""
        if principal.kind in _INSIDE:
            return
        empty = self.buckets.take(self._wanted(principal, name, bucket), now_ms)
        if empty is not None:
            raise _limited(empty, bucket)

    def refusal(self, principal: Principal, name: str, bucket: Bucket, now_ms: int) -> LimitExceeded | None:
        """Return the error that `charge` would raise now, and count nothing."""
        if principal.kind in _INSIDE:
            return None
        empty = self.buckets.look(self._wanted(principal, name, bucket), now_ms)
        return None if empty is None else _limited(empty, bucket)

    def charge_refused(self, principal: Principal, capability: Capability | None, now_ms: int) -> None:
        """Count a call that is refused for another reason, as a write: its audit record costs as much."""
        self.charge(principal, capability.name if capability is not None else "", "write", now_ms)

    def enter(self, principal: Principal) -> None:
        """Take one of the principal's places for concurrent calls; `leave` releases it."""
        held = self._in_flight.get(principal.id, 0)
        if held >= self._concurrent_max and principal.kind not in _INSIDE:
            message = f"more than {self._concurrent_max} calls at once with one key"
            raise LimitExceeded(
                "CONCURRENCY_LIMITED", message, "wait until one of them ends", {"retry_after_seconds": 1}
            )
        self._in_flight[principal.id] = held + 1

    def leave(self, principal: Principal) -> None:
        """Release a place."""
        remaining = self._in_flight[principal.id] - 1
        if remaining:
            self._in_flight[principal.id] = remaining
        else:
            del self._in_flight[principal.id]

    def _wanted(self, principal: Principal, name: str, bucket: Bucket) -> list[tuple[BucketKey, Rate]]:
        found: list[tuple[BucketKey, Rate]] = [(("principal", principal.id, bucket), self._of_principal[bucket])]
        of_tenant = self._of_tenant.get(bucket)
        if of_tenant is not None:
            found.append((("tenant", principal.tenant, bucket), of_tenant))
        if self._of_capability:
            of_one, of_all = self._of_capability.get(name, (None, None))
            if of_one is not None:
                found.append((("capability", principal.id, name), of_one))
            if of_all is not None:
                found.append((("tenant_capability", principal.tenant, name), of_all))
        return found


def burst_text(rate: Rate) -> str:
    """Say how many calls may come at once, for the message of a refusal."""
    return f", or more than {int(rate.burst)} at once"


def rate_details(rate: Rate) -> JsonObject:
    """Return a rate and its burst as numbers, for the details of a refusal."""
    return {"per_minute": rate.per_minute, "burst": int(rate.burst)}


def _limited(empty: Empty, bucket: Bucket) -> LimitExceeded:
    dimension, seconds = empty.key[0], empty.seconds
    rate = f"{empty.rate.per_minute:g} {'' if 'capability' in dimension else f'{bucket} '}calls a minute"
    message = f"more than {rate} {_WHO[dimension]}{burst_text(empty.rate)}"
    details: JsonObject = {"retry_after_seconds": seconds, "limit": dimension, **rate_details(empty.rate)}
    return LimitExceeded("RATE_LIMITED", message, f"wait {seconds} s", details)

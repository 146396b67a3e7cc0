"""Rate limits: how many calls a minute a principal may make in each bucket, and how many at once.

Rates are token buckets that fill steadily and hold ten seconds' worth. They live in this process: each replica applies
the full limits on its own.

Above it: `pipeline`. Below it: nothing but arithmetic on the time it is given.
"""

from __future__ import annotations

from collections import OrderedDict
from math import ceil

from penstock.base import limits
from penstock.base.errors import LimitExceeded
from penstock.operations.catalogue.capability import Bucket
from penstock.operations.gate.context import GateLimits

__all__ = ["RateLimiter"]

_BURST_SECONDS = 10.0
# Prefixes of the process's own principals. No outside caller can be one, so they need no rate limit.
_INSIDE = ("system:", "schedule:")
_MS_PER_MINUTE = 60_000


class RateLimiter:
    """Counts the calls of principals."""

    def __init__(self, chosen: GateLimits) -> None:
        per_minute: dict[Bucket, int] = {
            "read": chosen.read_per_minute,
            "write": chosen.write_per_minute,
            "admin": chosen.admin_per_minute,
        }
        self._rates = {bucket: (rate, max(1.0, rate * _BURST_SECONDS / 60)) for bucket, rate in per_minute.items()}
        """By bucket: the calls per minute, and the size of a burst."""
        self._concurrent_max = chosen.concurrent_per_key
        self._tokens: OrderedDict[tuple[str, Bucket], tuple[float, int]] = OrderedDict()
        self._in_flight: dict[str, int] = {}

    def charge(self, principal: str, bucket: Bucket, now_ms: int) -> None:
        """Count a call against its rate; raise `LimitExceeded` with the time to wait. Internal calls are free."""
        if principal.startswith(_INSIDE):
            return
        per_minute, burst = self._rates[bucket]
        key = (principal, bucket)
        tokens, seen_at = self._tokens.get(key, (burst, now_ms))
        if now_ms > seen_at:
            tokens += (now_ms - seen_at) * per_minute / _MS_PER_MINUTE
        tokens = min(burst, tokens)
        if tokens < 1:
            self._remember(key, tokens, now_ms)
            seconds = ceil((1 - tokens) * 60 / per_minute)
            message = f"more than {per_minute} {bucket} calls a minute with one key"
            raise LimitExceeded("RATE_LIMITED", message, f"wait {seconds} s", {"retry_after_seconds": seconds})
        self._remember(key, tokens - 1, now_ms)

    def enter(self, principal: str) -> None:
        """Take one of the principal's places for concurrent calls; `leave` releases it."""
        held = self._in_flight.get(principal, 0)
        if held >= self._concurrent_max and not principal.startswith(_INSIDE):
            message = f"more than {self._concurrent_max} calls at once with one key"
            raise LimitExceeded("CONCURRENCY_LIMITED", message, "wait for some of them", {"retry_after_seconds": 1})
        self._in_flight[principal] = held + 1

    def leave(self, principal: str) -> None:
        """Release a place."""
        remaining = self._in_flight[principal] - 1
        if remaining:
            self._in_flight[principal] = remaining
        else:
            del self._in_flight[principal]

    def _remember(self, key: tuple[str, Bucket], tokens: float, now_ms: int) -> None:
        self._tokens[key] = (tokens, now_ms)
        self._tokens.move_to_end(key)
        if len(self._tokens) > limits.RATE_BUCKETS_MAX:
            self._tokens.popitem(last=False)

"""Failed attempts to sign in with a form: counted by address, and by the public part of the key that was tried.

A sender who fails too often has to wait, also with a valid key: a form is for people, who type a few times a minute at
most. Programs send their keys to the other surfaces, which have limits of their own.

Above it: the console. Below it: the buckets of `governance.rates`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import LimitExceeded
from penstock.base.json import JsonObject
from penstock.governance.keys import parse_key
from penstock.governance.rates import BucketKey, Rate, TokenBuckets
from penstock.operations.gate.rates.limiter import burst_text, rate_details
from penstock.operations.gate.rates.peers import peer_of

__all__ = ["SignInLimits"]

_NAME = "console_sign_ins"
# Somebody who mistypes does so a few times in a row.
_BURST_SECONDS = 60.0


class SignInLimits:
    """Counts failed attempts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_address = Rate.of(limits.CONSOLE_FAILED_SIGN_INS_PER_ADDRESS_PER_MINUTE, _BURST_SECONDS)
        self._by_key = Rate.of(limits.CONSOLE_FAILED_SIGN_INS_PER_KEY_PER_MINUTE, _BURST_SECONDS)
        self._buckets = TokenBuckets(limits.PEER_BUCKETS_MAX)

    def check(self, remote: str | None, key: str = "") -> None:
        """Raise `LimitExceeded` if there were too many failed attempts; count nothing."""
        empty = self._buckets.look(self._wanted(remote, key), self._clock.now_ms())
        if empty is not None:
            most = f"{empty.rate.per_minute:g} failed attempts to sign in, in a minute"
            message = f"more than {most}{burst_text(empty.rate)}"
            details: JsonObject = {"retry_after_seconds": empty.seconds, "limit": _NAME, **rate_details(empty.rate)}
            raise LimitExceeded("RATE_LIMITED", message, f"wait {empty.seconds} s, and try again", details)

    def failed(self, remote: str | None, key: str = "") -> None:
        """Count a failed attempt."""
        self._buckets.take(self._wanted(remote, key), self._clock.now_ms())

    def _wanted(self, remote: str | None, key: str) -> list[tuple[BucketKey, Rate]]:
        parsed = parse_key(key)
        wanted: list[tuple[BucketKey, Rate]] = []
        if remote is not None:
            wanted.append(((_NAME, "address", peer_of(remote)), self._by_address))
        if parsed is not None:
            wanted.append(((_NAME, "key", parsed.key_id), self._by_key))
        return wanted

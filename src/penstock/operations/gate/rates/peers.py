"""Rate limits of senders who are not known: by the address that they really come from.

A sender without a key has no name, so the address of the other end of the connection counts, or the one that a trusted
proxy reports; never what a sender claims. An IPv6 address counts as its network of 64 bits, because the owner of one
address has all of them.

Two buckets are apart: requests without credentials, and credentials that are not valid. Neither ever keeps valid ones
out: many people may come from one address, and one of them must not be able to lock out the others. So above the
limit a wrong key gets RATE_LIMITED and no verdict, and a right one is let in.

Above it: `pipeline`, the surfaces. Below it: `governance.rates`.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import LimitExceeded
from penstock.base.json import JsonObject
from penstock.governance.rates import BucketKey, Empty, Rate, TokenBuckets
from penstock.operations.gate.chosen_limits import GateLimits
from penstock.operations.gate.rates.limiter import burst_text, rate_details

__all__ = ["PeerLimits", "peer_of"]

_NETWORK_BITS = 64
_ADDRESSES_KEPT = 4_096


@lru_cache(_ADDRESSES_KEPT)
def peer_of(remote: str) -> str:
    """Return who counts as one sender: an IPv4 address, or a network of IPv6 addresses."""
    try:
        address = ip_address(remote)
    except ValueError:  # a proxy may name its clients otherwise
        return remote[: limits.AUDIT_REMOTE_CHARACTERS_MAX]
    if not isinstance(address, IPv6Address):
        return str(address)
    mapped = address.ipv4_mapped
    if mapped is not None:
        return str(mapped)
    plain = IPv6Address(int(address))  # without a zone
    return str(IPv6Network((plain, _NETWORK_BITS), strict=False))


class PeerLimits:
    """Counts requests of strangers."""

    def __init__(self, chosen: GateLimits, clock: Clock) -> None:
        self._clock = clock
        self._requests = Rate.of(chosen.unauthenticated_per_minute, limits.RATE_BURST_SECONDS)
        self._failures = Rate.of(chosen.failed_logins_per_minute, limits.RATE_BURST_SECONDS)
        self.buckets = TokenBuckets(limits.PEER_BUCKETS_MAX, shared=True)

    def check(self, remote: str | None) -> None:
        """Raise `LimitExceeded` if a sender without credentials has sent too much; count nothing."""
        empty = None if remote is None else self.buckets.look(self._wanted(remote, failed=False), self._now())
        if empty is not None:
            raise _limited(empty)

    def count(self, remote: str | None, *, failed: bool = False) -> LimitExceeded | None:
        """Count a request without credentials, or with wrong ones; return the error if there were too many."""
        if remote is None:
            return None
        empty = self.buckets.take(self._wanted(remote, failed=failed), self._now())
        return None if empty is None else _limited(empty)

    def _wanted(self, remote: str, *, failed: bool) -> list[tuple[BucketKey, Rate]]:
        peer = peer_of(remote)
        return [(("failed_logins", peer), self._failures) if failed else (("unauthenticated", peer), self._requests)]

    def _now(self) -> int:
        return self._clock.now_ms()


def _limited(empty: Empty) -> LimitExceeded:
    what = "wrong credentials" if empty.key[0] == "failed_logins" else "requests without credentials"
    message = f"more than {empty.rate.per_minute:g} {what} a minute from one address{burst_text(empty.rate)}"
    details: JsonObject = {"retry_after_seconds": empty.seconds, "limit": empty.key[0], **rate_details(empty.rate)}
    return LimitExceeded("RATE_LIMITED", message, f"wait {empty.seconds} s, or send a valid key", details)

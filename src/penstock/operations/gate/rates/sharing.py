"""Rates that several processes on one store keep together.

Calls are counted in memory. Every quarter of a second a process tells the store what it took from buckets of which it
took a noticeable part, and the store tells what is left of them after all processes took theirs. A bucket may be
overdrawn for that long; what was taken too much is owed, and has to flow in before anybody takes from it again.

So with P processes, at most `burst + rate * T + (P - 1) * burst` calls pass in a time T, and over a long time no more
than the rate. While the store is away, or an exchange is late, each process counts alone, and what flows in at the rate
is not owed afterwards. A process that took less than a twentieth of a burst is not heard of yet.

Starts of workflows with a rate are few and important, and each writes to the store anyway. They are taken from the
store at once: any number of processes keep them exactly, also after a restart.

Above it: `pipeline`, `permissions.admission`, `app`. Below it: `governance.rates`, the platform port.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import LimitExceeded, PenstockError
from penstock.base.json import JsonObject
from penstock.definitions.durations import format_duration
from penstock.definitions.start_needs import StartRate
from penstock.governance.rates import Taken, TokenBuckets
from penstock.runtime.ports.platform import PlatformStore
from penstock.runtime.ports.usage import BucketUse

__all__ = ["charge_start", "exchange", "share"]

_LOGGER = logging.getLogger("penstock.gate")
_MS_PER_MINUTE = 60_000
_LATE_MS = round(4_000 * limits.RATE_SHARE_SECONDS)
# Joins the parts of a bucket's name; no part contains it.
_JOINT = "\x1f"


async def share(platform: PlatformStore, clock: Clock, tables: Sequence[TokenBuckets]) -> None:
    """Exchange what was taken with the other processes of the store, again and again."""
    while True:
        await asyncio.sleep(limits.RATE_SHARE_SECONDS)
        try:
            await exchange(platform, clock, tables)
        except PenstockError as error:
            _LOGGER.warning("what this process counted could not be shared: %s; it tries again", error.code)


async def exchange(platform: PlatformStore, clock: Clock, tables: Sequence[TokenBuckets]) -> None:
    """Tell the store what was taken, and learn what is left."""
    for table in tables:
        now = clock.now_ms()
        taken = list(table.pending(limits.RATE_SHARED_PART, now, late_after_ms=_LATE_MS))
        if not taken:
            continue
        try:
            levels = await platform.exchange_buckets([_use(item) for item in taken], at=now)
        except PenstockError:
            for item in taken:
                table.give_back(item)
            raise
        for item, level in zip(taken, levels, strict=True):
            table.adjust(item.key, level.tokens, now)


def _use(taken: Taken) -> BucketUse:
    rate = taken.rate
    return BucketUse(bucket=_JOINT.join(taken.key), amount=taken.amount, per_minute=rate.per_minute, burst=rate.burst)


async def charge_start(platform: PlatformStore, tenant: str, rates: Sequence[StartRate], now_ms: int) -> None:
    """Count a start against the rates of its workflows, all or none; raise `LimitExceeded` with the time to wait."""
    asked = list(dict.fromkeys(rates))
    uses = [
        BucketUse(
            bucket=_JOINT.join(("workflow", tenant, rate.bucket)),
            amount=1.0,
            per_minute=rate.limit * _MS_PER_MINUTE / rate.per_ms,
            burst=float(rate.limit),
        )
        for rate in asked
    ]
    levels = await platform.exchange_buckets(uses, at=now_ms)
    owed = [(-level.tokens * rate.per_ms / rate.limit, rate) for rate, level in zip(asked, levels, strict=True)]
    wait_ms, rate = max(owed, key=lambda item: item[0])
    if wait_ms <= limits.RATE_ROUNDING_MS:
        return
    await platform.exchange_buckets([_returned(use) for use in uses], at=now_ms)
    seconds = max(1, -(-int(wait_ms) // 1_000))
    message = f"more than {rate.limit} starts of this workflow in {format_duration(rate.per_ms)}"
    details: JsonObject = {"retry_after_seconds": seconds, "limit": "workflow"}
    raise LimitExceeded("RATE_LIMITED", message, f"wait {seconds} s", details)


def _returned(use: BucketUse) -> BucketUse:
    return BucketUse(bucket=use.bucket, amount=-use.amount, per_minute=use.per_minute, burst=use.burst)

"""Rates that several processes on one store keep together.

Each process counts calls in memory. Every quarter of a second it reports to the store what it took from buckets, if
that is a noticeable part. The store answers with what all processes have left in them. Until then a bucket may be
overdrawn; the excess is owed, and has to flow in before anybody takes from it again.

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
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.usage import BucketUse
from penstock.runtime.tables.usage import exchange_buckets

__all__ = ["charge_start", "exchange", "share", "try_exchange"]

_LOGGER = logging.getLogger("penstock.gate")
_MS_PER_MINUTE = 60_000
_LATE_MS = round(4_000 * limits.RATE_SHARE_SECONDS)
# Joins the parts of a bucket's name; no part contains it.
_JOINT = "\x1f"


async def share(platform: Database, clock: Clock, tables: Sequence[TokenBuckets]) -> None:
    """Exchange what was taken with the other processes of the store, until cancelled."""
    failing = False
    while True:
        await asyncio.sleep(limits.RATE_SHARE_SECONDS)
        failing = await try_exchange(platform, clock, tables, failing=failing)


async def try_exchange(platform: Database, clock: Clock, tables: Sequence[TokenBuckets], *, failing: bool) -> bool:
    """Exchange once; return whether the store is failing.

    Only the first failure is logged: a store that is away for an hour would fill the log. The store is failing until an
    exchange succeeds; an exchange of nothing proves nothing.
    """
    try:
        exchanged = await exchange(platform, clock, tables)
    except PenstockError as error:
        if not failing:
            _LOGGER.warning("rates cannot be shared with other processes: %s; trying again", error.code)
        return True
    return failing and not exchanged


async def exchange(platform: Database, clock: Clock, tables: Sequence[TokenBuckets]) -> int:
    """Tell the store what was taken, learn what is left, and return how many buckets that concerned."""
    exchanged = 0
    for table in tables:
        now = clock.now_ms()
        taken = list(table.pending(limits.RATE_SHARED_PART, now, late_after_ms=_LATE_MS))
        if not taken:
            continue
        try:
            levels = await exchange_buckets(platform, [_use(item) for item in taken], at=now)
        except PenstockError:
            for item in taken:
                table.give_back(item)
            raise
        for item, level in zip(taken, levels, strict=True):
            table.adjust(item.key, level.tokens, now)
        exchanged += len(taken)
    return exchanged


def _use(taken: Taken) -> BucketUse:
    rate = taken.rate
    return BucketUse(bucket=_JOINT.join(taken.key), amount=taken.amount, per_minute=rate.per_minute, burst=rate.burst)


async def charge_start(platform: Database, tenant: str, rates: Sequence[StartRate], now_ms: int) -> None:
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
    levels = await exchange_buckets(platform, uses, at=now_ms)
    owed = [(-level.tokens * rate.per_ms / rate.limit, rate) for rate, level in zip(asked, levels, strict=True)]
    wait_ms, rate = max(owed, key=lambda item: item[0])
    if wait_ms <= limits.RATE_ROUNDING_MS:
        return
    await exchange_buckets(platform, [_returned(use) for use in uses], at=now_ms)
    seconds = max(1, -(-int(wait_ms) // 1_000))
    message = f"more than {rate.limit} starts of this workflow in {format_duration(rate.per_ms)}"
    details: JsonObject = {"retry_after_seconds": seconds, "limit": "workflow"}
    raise LimitExceeded("RATE_LIMITED", message, f"wait {seconds} s", details)


def _returned(use: BucketUse) -> BucketUse:
    return BucketUse(bucket=use.bucket, amount=-use.amount, per_minute=use.per_minute, burst=use.burst)

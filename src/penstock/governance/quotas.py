"""Quotas: what a tenant or a key may use at most, and when a start is above that.

Days begin at midnight UTC. The cost of a run is known only afterwards. So a run may start as long as anything is left,
and a run in progress continues.

Above it: the stores compare within the transaction of a start, `operations.gate.quotas` says what holds for whom. Below
it: nothing but data; it reads no clock.
"""

from __future__ import annotations

import msgspec

from penstock.base.errors import LimitExceeded
from penstock.base.json import JsonObject
from penstock.definitions.durations import format_instant

__all__ = ["DAY_MS", "TENANT_SUBJECT", "QuotaLimits", "UsageRow", "check_quota", "day_of", "quota_exceeded"]

DAY_MS = 86_400_000
TENANT_SUBJECT = ""
"""The subject of counts of a whole tenant. Other subjects are principals."""
_WORDS = {
    "runs_at_once": "runs at once",
    "runs_per_day": "runs a day",
    "tokens_per_day": "tokens a day",
    "cost_per_day": "millionths of a dollar a day",
    "storage_bytes": "bytes of storage",
}
# Nobody knows when a run ends; clients ask again after this long.
_RETRY_SECONDS = 5


def day_of(at: int) -> int:
    """Return the day of a time, in UTC. Quotas restart each day."""
    return at // DAY_MS


class QuotaLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant or a key may use at most; None: any amount. Cost is in millionths of a US dollar."""

    runs_at_once: int | None = None
    runs_per_day: int | None = None
    tokens_per_day: int | None = None
    cost_per_day: int | None = None
    storage_bytes: int | None = None

    @property
    def bounds_starts(self) -> bool:
        """Whether a start has to be compared with any of them in its transaction."""
        counted = (self.runs_at_once, self.runs_per_day, self.tokens_per_day, self.cost_per_day)
        return any(limit is not None for limit in counted)


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a subject used on one day; `runs_now` are its runs that have not ended. Cost is in millionths."""

    runs: int = 0
    tokens: int = 0
    cost: int = 0
    runs_now: int = 0


def check_quota(limits: QuotaLimits, used: UsageRow, subject: str, at: int) -> None:
    """Raise `LimitExceeded` if one more run would be above a quota.

    Tokens and cost of a run are known only later, so a run may start as long as there is anything left.
    """
    compared = (
        ("runs_at_once", limits.runs_at_once, used.runs_now),
        ("runs_per_day", limits.runs_per_day, used.runs),
        ("tokens_per_day", limits.tokens_per_day, used.tokens),
        ("cost_per_day", limits.cost_per_day, used.cost),
    )
    for name, limit, amount in compared:
        if limit is not None and amount >= limit:
            raise quota_exceeded(name, limit, amount, subject, at)


def quota_exceeded(quota: str, limit: int, used: int, subject: str, at: int) -> LimitExceeded:
    """The error for a start above a quota, with the time when the quota restarts, if that is known."""
    whose = "tenant" if subject == TENANT_SUBJECT else "key"
    details: JsonObject = {"quota": quota, "of": whose, "limit": limit, "used": used}
    if subject != TENANT_SUBJECT:
        details["subject"] = subject
    hint = "wait until some have ended, or delete some" if quota == "storage_bytes" else "wait until some have ended"
    if quota.endswith("_per_day"):
        resets_at = (day_of(at) + 1) * DAY_MS
        hint = f"try again after {format_instant(resets_at)}, or ask the operator for more"
        details |= {"resets_at": format_instant(resets_at), "retry_after_seconds": -(-(resets_at - at) // 1000)}
    elif quota == "runs_at_once":
        details["retry_after_seconds"] = _RETRY_SECONDS
    message = f"the {whose} may have {limit} {_WORDS[quota]}, and has {used}"
    return LimitExceeded("QUOTA_EXCEEDED", message, hint, details)

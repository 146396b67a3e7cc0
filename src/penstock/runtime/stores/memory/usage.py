"""What tenants and keys use, in memory, and the token buckets that processes share.

Both stores in memory share one instance, as the tables of a file share its transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base.limits import POLICY_HISTORY_WINDOW_MS_MAX
from penstock.governance.quotas import TENANT_SUBJECT, UsageRow, check_quota, day_of
from penstock.governance.rates import Rate, refilled
from penstock.runtime.ports.models import model_subject
from penstock.runtime.ports.usage import (
    BucketLevel,
    BucketUse,
    PolicyTotal,
    PolicyUse,
    RunUsage,
    StartQuota,
    TakenUses,
)

__all__ = ["MemoryUsage"]

_TOTAL_MAX = 2**63 - 1


@dataclass(slots=True)
class MemoryUsage:
    """Counts by tenant, subject and day. `open_runs` returns the ids of a tenant's runs that have not ended."""

    open_runs: Callable[[str], set[str]] = lambda tenant: set()
    _counts: dict[tuple[str, str, int], UsageRow] = field(default_factory=dict)
    _started: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _buckets: dict[str, tuple[float, int, float]] = field(default_factory=dict)
    _uses: dict[int, PolicyUse] = field(default_factory=dict)
    _last_use: int = 0

    def of(self, tenant: str, subject: str, at: int) -> UsageRow:
        """What a subject used on the day of a time, and how many of its runs have not ended."""
        now = self.open_runs(tenant)
        if subject != TENANT_SUBJECT:
            now &= self._started.get((tenant, subject), set())
        return replace(self._counts.get((tenant, subject, day_of(at)), UsageRow()), runs_now=len(now))

    def check(self, quota: StartQuota) -> None:
        """Refuse a start that is above one of its quotas."""
        for item in quota.subjects:
            check_quota(item.limits, self.of(quota.tenant, item.subject, quota.at), item.subject, quota.at)

    def start(self, quota: StartQuota, run_id: str) -> None:
        """Count a start for every subject of its quotas."""
        for item in quota.subjects:
            self._add((quota.tenant, item.subject, day_of(quota.at)), runs=1)
            if item.subject != TENANT_SUBJECT:
                self._started.setdefault((quota.tenant, item.subject), set()).add(run_id)

    def add(self, used: RunUsage) -> None:
        """Count what a result reports, for its tenant, for whom it was performed, and for each model."""
        for subject in (TENANT_SUBJECT, *used.subjects):
            self._add((used.tenant, subject, day_of(used.at)), tokens=used.tokens, cost=used.cost)
        for model in used.models:
            name = (used.tenant, model_subject(model.name), day_of(used.at))
            self._add(name, tokens=model.tokens, cost=model.cost)

    def _add(self, name: tuple[str, str, int], *, runs: int = 0, tokens: int = 0, cost: int = 0) -> None:
        was = self._counts.get(name, UsageRow())
        self._counts[name] = UsageRow(runs=was.runs + runs, tokens=was.tokens + tokens, cost=was.cost + cost)

    def forget(self, *, before_day: int, now: int) -> int:
        """Drop the counts of days before a day, buckets that are full again, and calls that are before every window."""
        for bucket in [name for name, (_, _, full_at) in self._buckets.items() if full_at < now]:
            del self._buckets[bucket]
        window = now - POLICY_HISTORY_WINDOW_MS_MAX
        self._uses = {number: use for number, use in self._uses.items() if use.at >= window}
        past = [name for name in self._counts if name[2] < before_day]
        for name in past:
            del self._counts[name]
        return len(past)

    def exchange(self, taken: Sequence[BucketUse], at: int) -> tuple[BucketLevel, ...]:
        """Take from buckets that processes share, and return what is left in each."""
        found = []
        for item in taken:
            tokens, seen_at, _ = self._buckets.get(item.bucket, (item.burst, at, at))
            left = refilled(tokens, Rate(item.per_minute, item.burst), at - seen_at) - item.amount
            latest = max(at, seen_at)
            full_at = latest + (item.burst - left) * 60_000 / item.per_minute
            self._buckets[item.bucket] = (left, latest, full_at)
            found.append(BucketLevel(item.bucket, left))
        return tuple(found)

    def take(self, uses: Sequence[PolicyUse], asked: Sequence[PolicyTotal]) -> TakenUses:
        """Enter calls that policies count, and return totals."""
        ids = []
        for use in uses:
            self._last_use += 1
            self._uses[self._last_use] = use
            ids.append(self._last_use)
        return TakenUses(tuple(ids), tuple(min(sum(self._amounts(item)), _TOTAL_MAX) for item in asked))

    def _amounts(self, asked: PolicyTotal) -> Iterator[int]:
        for use in self._uses.values():
            is_asked = (use.tenant, use.action, use.field) == (asked.tenant, asked.action, asked.field)
            fits = all(
                wanted in (None, found)
                for wanted, found in (
                    (asked.principal, use.principal),
                    (asked.resource, use.resource),
                    (asked.run, use.run),
                )
            )
            if is_asked and fits and use.at > asked.since:
                yield use.amount

    def release(self, ids: Collection[int]) -> None:
        """Take back calls that were not made."""
        for number in ids:
            self._uses.pop(number, None)

"""When a start is above a quota, and what its caller is told."""

from __future__ import annotations

import pytest

from penstock.base.errors import LimitExceeded
from penstock.governance.quotas import DAY_MS, QuotaLimits, UsageRow, check_quota, day_of, quota_exceeded

AT = 1_767_225_600_000 + 3_600_000  # an hour after midnight


def test_a_start_is_refused_at_the_quota_and_not_below_it() -> None:
    limits = QuotaLimits(runs_at_once=2, runs_per_day=3, tokens_per_day=4, cost_per_day=5)
    check_quota(limits, UsageRow(runs_now=1, runs=2, tokens=3, cost=4), "", AT)
    for name, used in {
        "runs_at_once": UsageRow(runs_now=2),
        "runs_per_day": UsageRow(runs=3),
        "tokens_per_day": UsageRow(tokens=9),
        "cost_per_day": UsageRow(cost=5),
    }.items():
        with pytest.raises(LimitExceeded) as refused:
            check_quota(limits, used, "", AT)
        assert refused.value.details["quota"] == name


def test_nothing_is_refused_without_a_quota() -> None:
    check_quota(QuotaLimits(), UsageRow(runs=10**9, tokens=10**9, cost=10**9, runs_now=10**9), "", AT)
    assert not QuotaLimits(storage_bytes=1).bounds_starts


def test_a_daily_quota_says_when_it_begins_anew() -> None:
    error = quota_exceeded("runs_per_day", 5, 5, "key:a", AT)
    assert error.details["of"] == "key"
    assert error.details["resets_at"] == "2026-01-02T00:00:00.000Z"
    assert error.details["retry_after_seconds"] == 23 * 3_600
    assert day_of(AT + 23 * 3_600_000) == day_of(AT) + 1 == (AT + 23 * 3_600_000) // DAY_MS

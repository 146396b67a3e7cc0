"""The rate limits of known callers: by principal, tenant, capability and workflow."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base.errors import LimitExceeded
from penstock.governance.principals import Principal
from penstock.operations.gate.context import CapabilityLimit, GateLimits
from penstock.operations.gate.rates.limiter import RateLimiter

NOW = 1_000_000


def principal(name: str, tenant: str = "acme") -> Principal:
    return Principal(id=f"key:{name}", tenant=tenant, kind="service", scopes=frozenset())


def through(limiter: RateLimiter, who: Principal, name: str = "workflow.list", bucket: Any = "read") -> int:
    """How many of many calls at one moment pass."""
    passed = 0
    for _ in range(100):
        try:
            limiter.charge(who, name, bucket, NOW)
        except LimitExceeded:
            break
        passed += 1
    return passed


def test_each_principal_has_a_bucket_for_each_kind_of_call() -> None:
    limiter = RateLimiter(GateLimits(read_per_minute=60, write_per_minute=30, admin_per_minute=6))
    assert [through(limiter, principal("a"), bucket=bucket) for bucket in ("read", "write", "admin")] == [10, 5, 1]
    assert through(limiter, principal("b")) == 10


def test_the_keys_of_a_tenant_share_its_bucket_and_other_tenants_do_not() -> None:
    limiter = RateLimiter(GateLimits(read_per_minute=60, tenant_read_per_minute=90))
    assert through(limiter, principal("a")) == 10
    assert through(limiter, principal("b")) == 5
    assert through(limiter, principal("c", "other")) == 10


def test_a_capability_has_limits_of_its_own_for_a_key_and_for_a_tenant() -> None:
    chosen = {"workflow.execute": CapabilityLimit(per_minute=12, tenant_per_minute=18)}
    limiter = RateLimiter(GateLimits(capabilities=chosen))
    assert through(limiter, principal("a"), "workflow.execute", "write") == 2
    assert through(limiter, principal("b"), "workflow.execute", "write") == 1
    assert through(limiter, principal("a"), "workflow.list") == 100


def test_a_refusal_says_which_limit_and_when_to_come_back_and_costs_nothing_elsewhere() -> None:
    chosen = {"workflow.execute": CapabilityLimit(per_minute=1)}
    limiter = RateLimiter(GateLimits(write_per_minute=30, capabilities=chosen))
    who = principal("a")
    limiter.charge(who, "workflow.execute", "write", NOW)
    for _ in range(20):
        with pytest.raises(LimitExceeded) as refused:
            limiter.charge(who, "workflow.execute", "write", NOW)
        assert refused.value.code == "RATE_LIMITED"
        assert refused.value.details == {"retry_after_seconds": 60, "limit": "capability", "per_minute": 1, "burst": 1}
    # Of the five writes of a burst, one was used.
    assert through(limiter, who, "workflow.create", "write") == 4


def test_looking_says_what_a_call_would_be_told() -> None:
    limiter = RateLimiter(GateLimits(read_per_minute=6))
    who = principal("a")
    assert limiter.refusal(who, "x", "read", NOW) is None
    limiter.charge(who, "x", "read", NOW)
    told = limiter.refusal(who, "x", "read", NOW)
    assert told is not None
    with pytest.raises(LimitExceeded) as refused:
        limiter.charge(who, "x", "read", NOW)
    assert (told.code, told.details) == (refused.value.code, refused.value.details)


def test_calls_at_once_are_counted_for_each_principal() -> None:
    limiter = RateLimiter(GateLimits(concurrent_per_key=1))
    a, b = principal("a"), principal("b")
    limiter.enter(a)
    limiter.enter(b)
    with pytest.raises(LimitExceeded) as refused:
        limiter.enter(a)
    assert refused.value.code == "CONCURRENCY_LIMITED"
    limiter.leave(a)
    limiter.enter(a)

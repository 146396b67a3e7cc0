"""What quotas hold for whom: the settings, what was changed, and how soon that is noticed."""

from __future__ import annotations

import pytest

from penstock.governance.principals import Principal
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits
from penstock.operations.gate.quotas import QuotaChoices, Quotas, merged, subject_of
from penstock.runtime.stores.memory.platform_store import MemoryPlatformStore
from tests.conformance.platform_stores import resource

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 10_000

    def now_ms(self) -> int:
        return self.now

    def elapsed_ms(self) -> int:
        return self.now


def holder(**more: object) -> Principal:
    return Principal(id="key:a", tenant="acme", kind="service", scopes=frozenset(), **more)  # type: ignore[arg-type]


def test_a_change_replaces_what_it_names_and_null_lifts_a_quota() -> None:
    default = QuotaLimits(runs_per_day=5, tokens_per_day=6)
    assert merged(default, {"runs_per_day": None, "cost_per_day": 7, "other": 1}) == QuotaLimits(
        tokens_per_day=6, cost_per_day=7
    )


def test_what_acts_for_somebody_counts_for_them() -> None:
    assert subject_of(holder()) == "key:a"
    assert subject_of(holder(acting_for=("key:maker", "key:further"))) == "key:maker"


async def test_without_quotas_a_start_is_not_counted() -> None:
    assert await Quotas(MemoryPlatformStore(), Clock(), QuotaChoices()).of_start(holder()) is None


async def test_a_change_by_another_process_is_noticed_within_a_second() -> None:
    platform, clock = MemoryPlatformStore(), Clock()
    quotas = Quotas(platform, clock, QuotaChoices())
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits()
    changed = resource(kind="quota", resource_id="tenant", tenant="acme", body={"runs_per_day": 3})
    await platform.put_resource(changed, expected_etag=None)
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits()
    clock.now += 1_000
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits(runs_per_day=3)
    found = await quotas.of_start(holder())
    assert found is not None
    assert [(item.subject, item.limits.runs_per_day) for item in found.subjects] == [(TENANT_SUBJECT, 3)]

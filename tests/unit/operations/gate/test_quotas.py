"""What quotas hold for whom: the settings, what was changed, and how soon that is noticed."""

from __future__ import annotations

import pytest

from penstock.governance.principals import Principal
from penstock.governance.quotas import TENANT_SUBJECT, QuotaLimits
from penstock.operations.gate.quotas import QuotaChoices, Quotas, merged, quota_accounts
from penstock.runtime.ports.database import Database
from penstock.runtime.tables.resources import put_resource
from tests.conformance.platform_stores import resource
from tests.opened_database import database_fixture  # noqa: F401

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
    assert quota_accounts(holder()) == ("key:a",)
    assert quota_accounts(holder(acting_for=("key:maker", "key:further"))) == ("key:maker",)


def test_a_start_counts_for_the_first_of_its_keys_and_for_the_subject_behind_it() -> None:
    assert quota_accounts(holder(accounts=("key:first",), subject="key:first")) == ("key:first",)
    assert quota_accounts(holder(accounts=("key:first",), subject="person:ada")) == ("key:first", "person:ada")
    assert quota_accounts(holder(subject="person:ada")) == ("key:a", "person:ada")


async def test_a_quota_that_was_set_for_a_key_replaces_the_usual_one_of_its_subject(database: Database) -> None:
    quotas = Quotas(database, Clock(), QuotaChoices(key=QuotaLimits(runs_per_day=5)))
    ada = holder(subject="person:ada")

    async def counted() -> dict[str, int | None]:
        found = await quotas.of_start(ada)
        assert found is not None
        return {item.subject: item.limits.runs_per_day for item in found.subjects}

    assert await counted() == {"key:a": 5, "person:ada": 5}
    for name, limit in (("key:a", 50), ("person:ada", 20)):
        changed = resource(kind="quota", resource_id=name, tenant="acme", body={"runs_per_day": limit})
        await put_resource(database, changed, expected_etag=None)
        assert await counted() == {"key:a": 50, **({"person:ada": 20} if name == "person:ada" else {})}


async def test_without_quotas_a_start_is_not_counted(database: Database) -> None:
    assert await Quotas(database, Clock(), QuotaChoices()).of_start(holder()) is None


async def test_a_changed_quota_holds_for_the_next_start(database: Database) -> None:
    quotas = Quotas(database, Clock(), QuotaChoices())
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits()
    changed = resource(kind="quota", resource_id="tenant", tenant="acme", body={"runs_per_day": 3})
    await put_resource(database, changed, expected_etag=None)
    assert await quotas.limits_of("acme", TENANT_SUBJECT) == QuotaLimits(runs_per_day=3)
    found = await quotas.of_start(holder())
    assert found is not None
    assert [(item.subject, item.limits.runs_per_day) for item in found.subjects] == [(TENANT_SUBJECT, 3)]

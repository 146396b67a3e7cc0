"""What tenants and keys use, shared token buckets, and calls that policies count."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.base.limits import POLICY_HISTORY_WINDOW_MS_MAX
from penstock.governance.quotas import DAY_MS, TENANT_SUBJECT, QuotaLimits, day_of
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.usage import (
    BucketUse,
    ModelUsage,
    PolicyTotal,
    PolicyUse,
    RunUsage,
    StartQuota,
    SubjectQuota,
)
from penstock.runtime.tables import policy_uses, usage
from tests.conformance.families.family import Family
from tests.conformance.platform_stores import AT

__all__ = ["USAGE"]

LONG_AGO = AT - 2 * POLICY_HISTORY_WINDOW_MS_MAX
FULL_AGAIN = AT + DAY_MS


def taken(*names: str, amount: float = 1) -> list[BucketUse]:
    """What a process took from buckets."""
    return [BucketUse(bucket=name, amount=amount, per_minute=60, burst=10) for name in names]


def use(amount: int = 1, *, at: int = AT, field: str = "") -> PolicyUse:
    """A call that a policy counts."""
    return PolicyUse(
        tenant="acme", action="pay", field=field, principal="p", resource="r", run="", amount=amount, at=at
    )


def total(field: str = "") -> PolicyTotal:
    """A question for the sum of calls."""
    return PolicyTotal(
        tenant="acme", action="pay", field=field, since=LONG_AGO - 1, principal="p", resource="r", run=""
    )


def start(database: Database, run_id: str, *, runs_per_day: int | None = None) -> Awaitable[None]:
    """Count the start of a run."""
    limits = QuotaLimits(runs_per_day=runs_per_day, tokens_per_day=1_000)
    # A tenant's subject is an empty text, and the subject of a key comes after it: here they come the other way round.
    subjects = (SubjectQuota("p", limits), SubjectQuota(TENANT_SUBJECT, limits))
    quota = StartQuota(tenant="acme", at=AT, subjects=subjects)
    return database.write(lambda transaction: usage.count_start(transaction, quota, run_id))


def add(database: Database, *subjects: str, models: tuple[ModelUsage, ...] = ()) -> Awaitable[None]:
    """Count what a result reports."""
    used = RunUsage(tenant="acme", subjects=subjects, at=AT, tokens=5, cost=7, models=models)
    return database.write(lambda transaction: usage.add_usage(transaction, used))


async def take(database: Database, uses: list[PolicyUse], asked: list[PolicyTotal]) -> tuple[int, ...]:
    """Enter calls, and return the totals alone: numbers of rows differ."""
    return (await policy_uses.take_uses(database, uses, asked)).totals


_GIVEN_USES = "SELECT id FROM policy_uses WHERE field = ? AND amount <= 2"


async def release(database: Database, *fields: str) -> None:
    """Take calls back that were there before, by the argument that they count."""
    found = [await database.rows(_GIVEN_USES, (field,)) for field in fields]
    await policy_uses.release_uses(database, [number for rows in found for (number,) in rows])


MODELS = (ModelUsage(name="m", tokens=5, cost=7), ModelUsage(name="a", tokens=1, cost=1))

USAGE = Family(
    given=[
        lambda database: start(database, "r_1"),
        lambda database: add(database, "p"),
        lambda database: database.write(
            lambda transaction: usage.add_usage(
                transaction, RunUsage(tenant="acme", subjects=("p",), at=LONG_AGO, tokens=1, cost=1)
            )
        ),
        lambda database: usage.exchange_buckets(database, taken("b", "a", amount=9), at=AT),
        lambda database: take(database, [use(1, at=LONG_AGO, field=name) for name in ("old", "older")], []),
        lambda database: take(database, [use(2, field=name) for name in ("new", "newer")], []),
    ],
    changes={
        "count_start": lambda database: start(database, "r_2", runs_per_day=2),
        "count_start: another": lambda database: start(database, "r_3", runs_per_day=2),
        "add_usage": lambda database: add(database, "p", models=MODELS),
        "add_usage: of two keys": lambda database: add(database, "q", "p", models=MODELS[::-1]),
        "exchange_buckets": lambda database: usage.exchange_buckets(database, taken("b", "a"), at=FULL_AGAIN),
        "exchange_buckets: the other way round": lambda database: usage.exchange_buckets(
            database, taken("a", "b", "c", amount=2), at=FULL_AGAIN
        ),
        "forget_usage": lambda database: usage.forget_usage(database, before_day=day_of(AT), now=FULL_AGAIN),
        "take_uses": lambda database: take(database, [use(3)], [total()]),
        "take_uses: the other, too": lambda database: take(database, [use(4), use(5, field="new")], [total()]),
        "take_uses: asked for another": lambda database: take(database, [use(6, field="new")], [total(), total("new")]),
        "take_uses: asked for the other": lambda database: take(database, [use(7)], [total("new")]),
        "release_uses": lambda database: release(database, "new", "old", "newer"),
        "release_uses: the other way round": lambda database: release(database, "newer", "older", "new"),
    },
    reads={
        "read_usage": lambda database: usage.read_usage(database, "acme", "p", at=AT),
        "read_usage: of a tenant": lambda database: usage.read_usage(database, "acme", TENANT_SUBJECT, at=AT),
        "measure_storage_bytes": lambda database: usage.measure_storage_bytes(database, "acme"),
        "take_uses": lambda database: take(database, [], [total()]),
    },
)

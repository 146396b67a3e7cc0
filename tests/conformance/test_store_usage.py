"""What every pair of stores counts: starts within quotas, what results report, and buckets that processes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from penstock.base.errors import LimitExceeded
from penstock.base.limits import POLICY_HISTORY_WINDOW_MS_MAX
from penstock.governance.quotas import DAY_MS, TENANT_SUBJECT, QuotaLimits, UsageRow, day_of
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import Appended, AppendOutcome, RunWrite, SequenceConflict
from penstock.runtime.ports.transactions import Transaction
from penstock.runtime.ports.usage import BucketUse, PolicyTotal, PolicyUse, RunUsage, StartQuota, SubjectQuota
from penstock.runtime.tables.policy_uses import release_uses, take_uses
from penstock.runtime.tables.runs.appending import Appender, RunAppend
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.usage import exchange_buckets, forget_usage, measure_storage_bytes, read_usage
from tests.conformance.databases import DATABASES
from tests.conformance.stores import AT, run_bounded, start, step
from tests.opened_database import opened_store

KEY = "key:aaaaaaaaaaaa"


class Pair(NamedTuple):
    """A run store, and the platform store beside it."""

    runs: RunStore
    platform: Database


@asynccontextmanager
async def opened(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with opened_store(RunStore(DATABASES[kind](request))) as store:
        yield Pair(store, store.database)


def on_every_pair(scenario: Callable[[Pair], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of an async function that takes both stores: it runs once on each kind."""

    @pytest.mark.parametrize("kind", DATABASES)
    def test(kind: str, request: pytest.FixtureRequest) -> None:
        async def with_pair() -> None:
            async with opened(kind, request) as pair:
                await scenario(pair)

        run_bounded(with_pair())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


def quota(at: int = AT, *, tenant: QuotaLimits | None = None, key: QuotaLimits | None = None) -> StartQuota:
    subjects = [SubjectQuota(TENANT_SUBJECT, tenant)] if tenant else []
    subjects += [SubjectQuota(KEY, key)] if key else []
    return StartQuota(tenant="acme", at=at, subjects=tuple(subjects))


def begun(run_id: str, given: StartQuota, **row: Any) -> RunWrite:
    return replace(start(run_id, tenant="acme", **row), call=CallRecord(quota=given))


async def refusal(pair: Pair, write: RunWrite) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as refused:
        await pair.runs.append(write)
    assert refused.value.code == "QUOTA_EXCEEDED"
    assert await pair.runs.row(write.row.run_id) is None
    return refused.value


@on_every_pair
async def test_starts_of_a_day_are_counted_and_refused_above_the_quota(pair: Pair) -> None:
    daily = QuotaLimits(runs_per_day=2)
    for number in range(2):
        assert isinstance(await pair.runs.append(begun(f"r_{number}", quota(tenant=daily))), Appended)
    error = await refusal(pair, begun("r_2", quota(tenant=daily)))
    assert error.details["quota"] == "runs_per_day"
    assert error.details["of"] == "tenant"
    assert (error.details["limit"], error.details["used"]) == (2, 2)
    assert error.details["retry_after_seconds"] == ((day_of(AT) + 1) * DAY_MS - AT) // 1000
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT)).runs == 2
    tomorrow = begun("r_3", quota(AT + DAY_MS, tenant=daily))
    assert isinstance(await pair.runs.append(tomorrow), Appended)
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT + DAY_MS)).runs == 1


@on_every_pair
async def test_a_start_that_is_refused_for_one_subject_counts_for_none(pair: Pair) -> None:
    both = quota(tenant=QuotaLimits(runs_per_day=9), key=QuotaLimits(runs_per_day=1))
    assert isinstance(await pair.runs.append(begun("r_1", both)), Appended)
    assert (await refusal(pair, begun("r_2", both))).details["of"] == "key"
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT)).runs == 1
    assert (await read_usage(pair.platform, "acme", KEY, at=AT)).runs == 1


@on_every_pair
async def test_a_run_that_exists_is_not_counted_again(pair: Pair) -> None:
    daily = quota(tenant=QuotaLimits(runs_per_day=5))
    assert isinstance(await pair.runs.append(begun("r_1", daily)), Appended)
    assert isinstance(await pair.runs.append(begun("r_1", daily)), SequenceConflict)
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT)).runs == 1


@on_every_pair
async def test_runs_at_once_are_those_that_have_not_ended(pair: Pair) -> None:
    for given in (quota(tenant=QuotaLimits(runs_at_once=1)), quota(key=QuotaLimits(runs_at_once=1))):
        named = given.subjects[0].subject or "tenant"
        write = begun(f"{named}_1", given)
        assert isinstance(await pair.runs.append(write), Appended)
        error = await refusal(pair, begun(f"{named}_2", given))
        assert error.details["quota"] == "runs_at_once"
        assert error.details["retry_after_seconds"] == 5
        ended = step(write, status="completed", terminal=True)
        assert isinstance(await pair.runs.append(ended), Appended)
        again = begun(f"{named}_2", given)
        assert isinstance(await pair.runs.append(again), Appended)
        subject = given.subjects[0].subject
        assert (await read_usage(pair.platform, "acme", subject, at=AT)).runs_now == 1
        assert isinstance(await pair.runs.append(step(again, status="failed", terminal=True)), Appended)


@on_every_pair
async def test_the_runs_of_other_tenants_do_not_count(pair: Pair) -> None:
    assert isinstance(await pair.runs.append(start("other", tenant="other")), Appended)
    one = quota(tenant=QuotaLimits(runs_at_once=1, runs_per_day=1))
    assert isinstance(await pair.runs.append(begun("r_1", one)), Appended)


@on_every_pair
async def test_of_many_starts_at_once_as_many_succeed_as_the_quota_has(pair: Pair) -> None:
    bounds = quota(tenant=QuotaLimits(runs_at_once=3), key=QuotaLimits(runs_per_day=5))

    async def attempt(number: int) -> bool:
        try:
            return isinstance(await pair.runs.append(begun(f"r_{number}", bounds)), Appended)
        except LimitExceeded:
            return False

    done = await asyncio.gather(*(attempt(number) for number in range(20)))
    assert sum(done) == 3
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT)).runs_now == 3


@on_every_pair
async def test_what_results_report_is_counted_for_the_tenant_and_for_whom_it_was_done(pair: Pair) -> None:
    write = start("r_1", tenant="acme")
    await pair.runs.append(write)
    used = RunUsage(tenant="acme", subjects=(KEY,), at=AT, tokens=700, cost=1_500_000)
    for _ in range(2):
        write = replace(step(write), usage=used)
        assert isinstance(await pair.runs.append(write), Appended)
    for subject in (TENANT_SUBJECT, KEY):
        found = await read_usage(pair.platform, "acme", subject, at=AT)
        assert (found.tokens, found.cost) == (1_400, 3_000_000)
    for name, limits in (
        ("tokens_per_day", QuotaLimits(tokens_per_day=1_400)),
        ("cost_per_day", QuotaLimits(cost_per_day=3_000_000)),
    ):
        assert (await refusal(pair, begun("r_2", quota(key=limits)))).details["quota"] == name
    room = QuotaLimits(tokens_per_day=1_401, cost_per_day=3_000_001)
    assert isinstance(await pair.runs.append(begun("r_2", quota(tenant=room, key=room))), Appended)


@on_every_pair
async def test_results_that_are_stored_together_are_all_counted_and_a_stale_one_among_them_is_not(pair: Pair) -> None:
    started = [start(f"r_{number}", tenant="acme") for number in range(10)]
    await asyncio.gather(*(pair.runs.append(write) for write in started))
    used = RunUsage(tenant="acme", subjects=(KEY,), at=AT, tokens=7, cost=3)
    writes = [replace(step(write), usage=used) for write in started]
    writes[4] = replace(step(step(started[4])), usage=used)
    outcomes = await asyncio.gather(*(pair.runs.append(write) for write in writes))
    assert [type(outcome) for outcome in outcomes].count(SequenceConflict) == 1
    for subject in (TENANT_SUBJECT, KEY):
        found = await read_usage(pair.platform, "acme", subject, at=AT)
        assert (found.tokens, found.cost) == (63, 27)


@pytest.mark.parametrize("kind", DATABASES)
def test_results_that_report_what_they_used_share_a_call_of_the_writer(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[int] = []
    append = Appender.append

    def note(self: Appender, transaction: Transaction, appends: list[RunAppend]) -> list[AppendOutcome]:
        together.append(len(appends))
        return append(self, transaction, appends)

    monkeypatch.setattr(Appender, "append", note)

    async def scenario() -> None:
        async with opened(kind, request) as pair:
            started = [start(f"r_{number}", tenant="acme") for number in range(10)]
            await asyncio.gather(*(pair.runs.append(write) for write in started))
            used = RunUsage(tenant="acme", subjects=(), at=AT, tokens=7, cost=3)
            await asyncio.gather(*(pair.runs.append(replace(step(write), usage=used)) for write in started))
            assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT)).tokens == 70

    run_bounded(scenario())
    assert together == [10, 10]


@on_every_pair
async def test_a_result_that_is_not_stored_is_not_counted(pair: Pair) -> None:
    write = start("r_1", tenant="acme")
    await pair.runs.append(write)
    stale = replace(step(step(write)), usage=RunUsage(tenant="acme", subjects=(), at=AT, tokens=1, cost=1))
    assert isinstance(await pair.runs.append(stale), SequenceConflict)
    assert await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT) == UsageRow(runs_now=1)


@on_every_pair
async def test_old_days_are_forgotten(pair: Pair) -> None:
    await pair.runs.append(begun("r_1", quota(tenant=QuotaLimits(runs_per_day=5))))
    await pair.runs.append(begun("r_2", quota(AT + DAY_MS, tenant=QuotaLimits(runs_per_day=5))))
    assert await forget_usage(pair.platform, before_day=day_of(AT) + 1, now=AT) == 1
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT)).runs == 0
    assert (await read_usage(pair.platform, "acme", TENANT_SUBJECT, at=AT + DAY_MS)).runs == 1


def use(amount: float, *, bucket: str = "b", per_minute: float = 60, burst: float = 10) -> BucketUse:
    return BucketUse(bucket=bucket, amount=amount, per_minute=per_minute, burst=burst)


@on_every_pair
async def test_buckets_are_shared_fill_with_time_and_can_be_owed(pair: Pair) -> None:
    async def left(amount: float, at: int = AT, **more: Any) -> float:
        [level] = await exchange_buckets(pair.platform, [use(amount, **more)], at=at)
        return level.tokens

    assert await left(4) == 6
    assert await left(7) == -1
    assert await left(0, AT + 2_000) == pytest.approx(1)
    assert await left(0, AT + 60_000) == 10
    assert await left(1, AT) == 9  # a clock that is behind fills nothing
    assert await left(0, AT + 60_000) == 9
    assert await left(2, bucket="other") == 8
    first, second = await exchange_buckets(pair.platform, [use(1, bucket="x"), use(2, bucket="y")], at=AT)
    assert ((first.bucket, first.tokens), (second.bucket, second.tokens)) == (("x", 9), ("y", 8))


@on_every_pair
async def test_a_bucket_is_forgotten_when_it_is_full_and_not_before(pair: Pair) -> None:
    hourly: dict[str, Any] = {"per_minute": 1 / 60, "burst": 1.0}
    await exchange_buckets(pair.platform, [use(2, **hourly)], at=AT)
    await forget_usage(pair.platform, before_day=0, now=AT + 3_600_000)
    [level] = await exchange_buckets(pair.platform, [use(0, **hourly)], at=AT + 3_600_000)
    assert level.tokens == pytest.approx(0)
    await forget_usage(pair.platform, before_day=0, now=AT + 7_200_001)
    [level] = await exchange_buckets(pair.platform, [use(0, **hourly)], at=AT)
    assert level.tokens == 1


@on_every_pair
async def test_a_tenant_that_stores_more_has_more_bytes(pair: Pair) -> None:
    assert await measure_storage_bytes(pair.platform, "acme") == 0


def counted(amount: int, at: int = AT, **more: Any) -> PolicyUse:
    """A call that policies count."""
    named = {"tenant": "acme", "action": "workflow:refund", "field": "amount", "principal": KEY} | more
    return PolicyUse(resource="refund", run=named.pop("run", ""), amount=amount, at=at, **named)


def total(**more: Any) -> PolicyTotal:
    named: dict[str, Any] = {"tenant": "acme", "action": "workflow:refund", "field": "amount", "since": AT - 1} | more
    return PolicyTotal(**named)


@on_every_pair
async def test_calls_that_policies_count_see_those_entered_before_them(pair: Pair) -> None:
    async def entered(*uses: PolicyUse) -> tuple[int, ...]:
        return (await take_uses(pair.platform, uses, [total(), total(principal=KEY), total(run="r_1")])).totals

    assert await entered(counted(5)) == (5, 5, 0)
    assert await entered(counted(7, principal="key:other", run="r_1")) == (12, 5, 7)
    others: list[dict[str, Any]] = [{"tenant": "other"}, {"action": "workflow:pay"}, {"field": "fee"}]
    for other in others:
        assert await entered(counted(100, **other)) == (12, 5, 7)
    assert await entered(counted(1, AT - 1)) == (12, 5, 7)  # before the window
    assert await entered() == (12, 5, 7)
    both = await asyncio.gather(*(take_uses(pair.platform, [counted(10)], [total()]) for _ in range(2)))
    assert sorted(item.totals[0] for item in both) == [22, 32]


@on_every_pair
async def test_calls_that_were_not_made_are_taken_back_and_old_ones_forgotten(pair: Pair) -> None:
    first = await take_uses(pair.platform, [counted(5), counted(6)], [])
    second = await take_uses(pair.platform, [counted(7, AT + 5)], [total()])
    assert second.totals == (18,)
    await release_uses(pair.platform, first.ids[:1])
    await release_uses(pair.platform, [10**6])
    assert (await take_uses(pair.platform, [], [total()])).totals == (13,)
    await forget_usage(pair.platform, before_day=0, now=AT + POLICY_HISTORY_WINDOW_MS_MAX + 1)
    assert (await take_uses(pair.platform, [], [total()])).totals == (7,)


@on_every_pair
async def test_a_total_that_is_too_large_is_the_largest_number(pair: Pair) -> None:
    largest = 2**63 - 1
    taken = await take_uses(pair.platform, [counted(largest), counted(largest)], [total()])
    assert taken.totals == (largest,)

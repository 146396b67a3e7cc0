"""Processes on one store keep rates together: within a bound for calls, exactly for starts of a workflow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import LimitExceeded, Unavailable
from penstock.definitions.start_needs import StartRate
from penstock.governance.rates import Rate, TokenBuckets
from penstock.operations.gate.rates.sharing import charge_start, exchange, try_exchange
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import database_fixture  # noqa: F401

pytestmark = pytest.mark.anyio
NOW = 1_000_000
KEY = ("principal", "key:a", "read")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def now_ms(self) -> int:
        return self.now

    def elapsed_ms(self) -> int:
        return self.now


def taken(table: TokenBuckets, rate: Rate, now: int, most: int = 10_000) -> int:
    """How many calls pass at one moment."""
    count = 0
    while count < most and table.take([(KEY, rate)], now) is None:
        count += 1
    return count


async def test_what_one_process_took_another_cannot_take(tmp_path: Path) -> None:
    rate, clock = Rate.of(600, 10), Clock()
    store = RunStore(SqliteDatabase(tmp_path / "store.db"))
    await store.open()
    try:
        platform = store.database
        first, second = TokenBuckets(10, shared=True), TokenBuckets(10, shared=True)
        assert taken(first, rate, clock.now, 60) == 60
        await exchange(platform, clock, [first])
        assert taken(second, rate, clock.now, 5) == 5
        await exchange(platform, clock, [second])
        assert taken(second, rate, clock.now) == 35
        await exchange(platform, clock, [second])
        assert taken(first, rate, clock.now) == 40  # it has not heard of the second one yet
        await exchange(platform, clock, [first])
        # Forty were taken too much, and have to flow in first.
        clock.now += 4_000
        assert taken(first, rate, clock.now) == 0
        clock.now += 1_000
        assert taken(first, rate, clock.now) == 10
    finally:
        await store.close()


@pytest.mark.parametrize("processes", [2, 3])
async def test_no_more_passes_than_the_bound(processes: int, database: SqliteDatabase) -> None:
    rate, clock, platform = Rate.of(1_200, 10), Clock(), database
    tables = [TokenBuckets(10, shared=True) for _ in range(processes)]
    passed, seconds = 0, 60
    for _ in range(seconds * 4):
        for table in tables:
            passed += taken(table, rate, clock.now, 200)
            await exchange(platform, clock, [table])
        clock.now += 250
    flows = rate.per_minute * seconds / 60
    assert passed <= rate.burst + flows + (processes - 1) * rate.burst
    assert passed >= flows


async def test_little_is_not_told_and_what_could_not_be_told_is_told_later(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate, clock, platform = Rate.of(6_000, 10), Clock(), database
    table = TokenBuckets(10, shared=True)
    assert taken(table, rate, clock.now, 49) == 49
    monkeypatch.setattr(platform, "write", _fails)
    await exchange(platform, clock, [table])  # which writes nothing, and so does not fail
    assert taken(table, rate, clock.now, 1) == 1
    with pytest.raises(Unavailable):
        await exchange(platform, clock, [table])
    monkeypatch.undo()
    await exchange(platform, clock, [table])
    assert taken(TokenBuckets(10, shared=True), rate, clock.now) == 1_000
    assert taken(table, rate, clock.now) == 950


async def test_an_outage_of_the_store_is_logged_once(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rate, clock = Rate.of(6_000, 10), Clock()
    failing, states = False, []
    for calls, is_away in ((100, True), (0, True), (100, True), (100, False), (100, True)):
        table = TokenBuckets(10, shared=True)
        assert taken(table, rate, clock.now, calls) == calls
        with monkeypatch.context() as patch:
            if is_away:
                patch.setattr(database, "write", _fails)
            failing = await try_exchange(database, clock, [table], failing=failing)
        states.append(failing)
    assert states == [True, True, True, False, True]
    once = "rates cannot be shared with other processes: STORE_BUSY; trying again"
    assert [record.getMessage() for record in caplog.records] == [once, once]


async def _fails(*given: Any, **more: Any) -> Any:
    raise Unavailable("STORE_BUSY", "another process holds the store")


async def test_the_rate_of_a_document_counts_its_starts_for_each_tenant(database: SqliteDatabase) -> None:
    platform, rate = database, StartRate(2, 3_600_000, "workflow:refund")
    for tenant in ("acme", "other"):
        await charge_start(platform, tenant, [rate], NOW)
        await charge_start(platform, tenant, [rate, rate], NOW)
        for _ in range(3):
            with pytest.raises(LimitExceeded) as refused:
                await charge_start(platform, tenant, [rate], NOW)
            assert refused.value.message == "more than 2 starts of this workflow in 1h"
            assert refused.value.details == {"retry_after_seconds": 1_800, "limit": "workflow"}
    await charge_start(platform, "acme", [rate], NOW + 1_800_000)


async def test_a_start_that_is_refused_by_one_rate_costs_nothing_elsewhere(database: SqliteDatabase) -> None:
    platform = database
    narrow, wide = StartRate(1, 60_000, "bucket:mail"), StartRate(3, 60_000, "workflow:mail")
    await charge_start(platform, "acme", [narrow, wide], NOW)
    for _ in range(5):
        with pytest.raises(LimitExceeded):
            await charge_start(platform, "acme", [narrow, wide], NOW)
    await charge_start(platform, "acme", [wide], NOW)
    await charge_start(platform, "acme", [wide], NOW)
    with pytest.raises(LimitExceeded):
        await charge_start(platform, "acme", [wide], NOW)


async def test_of_many_starts_at_once_no_more_than_the_rate_pass(database: SqliteDatabase) -> None:
    platform, rate = database, StartRate(3, 3_600_000, "workflow:refund")

    async def attempt() -> bool:
        try:
            await charge_start(platform, "acme", [rate], NOW)
        except LimitExceeded:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt() for _ in range(20)))) <= 3


async def test_an_obedient_caller_is_not_locked_out_after_the_store_was_unavailable(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For ten minutes nothing can be told to the store, and a caller takes as much as its rate gives."""
    rate, key = Rate(60, 10), ("principal", "k", "write")
    platform, clock = database, Clock()
    table = TokenBuckets(10, shared=True)
    assert table.take([(key, rate)], clock.now_ms()) is None
    await exchange(platform, clock, (table,))

    monkeypatch.setattr(platform, "write", _fails)
    for _ in range(600):
        clock.now += 1_000
        assert table.take([(key, rate)], clock.now_ms()) is None
        with pytest.raises(Unavailable):
            await exchange(platform, clock, (table,))
    monkeypatch.undo()
    await exchange(platform, clock, (table,))
    clock.now += 1_000
    assert table.take([(key, rate)], clock.now_ms()) is None


@pytest.mark.parametrize("is_first", [True, False])
async def test_what_was_taken_before_a_late_exchange_flows_in_meanwhile(
    is_first: bool, database: SqliteDatabase
) -> None:
    rate, key = Rate(60, 10), ("principal", "k", "write")
    platform, clock = database, Clock()
    table = TokenBuckets(10, shared=True)
    assert table.take([(key, rate)], clock.now_ms()) is None
    if not is_first:
        await exchange(platform, clock, (table,))
    for _ in range(300):  # the next exchange is five minutes late
        clock.now += 1_000
        assert table.take([(key, rate)], clock.now_ms()) is None
    await exchange(platform, clock, (table,))
    clock.now += 1_000
    assert table.take([(key, rate)], clock.now_ms()) is None


async def test_what_was_taken_too_much_while_the_store_was_away_is_still_owed(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate, key = Rate(60, 10), ("principal", "k", "write")
    platform, clock = database, Clock()
    tables = [TokenBuckets(10, shared=True) for _ in range(3)]

    monkeypatch.setattr(platform, "write", _fails)
    for table in tables:
        assert all(table.take([(key, rate)], clock.now_ms()) is None for _ in range(10))
        with pytest.raises(Unavailable):
            await exchange(platform, clock, (table,))
    monkeypatch.undo()
    clock.now += 250
    for table in tables:
        await exchange(platform, clock, (table,))
    empty = tables[2].look([(key, rate)], clock.now_ms())
    assert empty is not None
    assert 19 <= empty.seconds <= 22

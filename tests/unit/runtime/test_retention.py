"""Runs that ended long ago are forgotten, in pieces, and nothing else is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.errors import Rejected
from penstock.runtime.retention import Retention
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import AT, listed, on_every_store, start
from tests.opened_database import run_on
from tests.waiting import until

DAY_MS = 24 * 60 * 60 * 1000
ENDED: dict[str, Any] = {"status": "completed", "terminal": True}


def retention(store: RunStore, *, days: int = 30) -> Retention:
    return Retention(store=store, clock=ManualClock(AT + 100 * DAY_MS), keep_ms=days * DAY_MS, pause_seconds=0)


@on_every_store
async def test_runs_that_ended_long_ago_are_forgotten(store: RunStore) -> None:
    for age in (99, 31, 30, 29, 1):
        await store.append(start(f"ended {age} days ago", **ENDED, updated_at=AT + (100 - age) * DAY_MS))
    await store.append(start("goes on", updated_at=AT))
    await store.append(start("owes work", **ENDED, has_work=True, updated_at=AT))
    await store.append(start("child", **ENDED, parent_run_id="goes on", updated_at=AT))
    assert await retention(store).sweep() == 2
    assert sorted(await listed(store)) == [
        "child",
        "ended 1 days ago",
        "ended 29 days ago",
        "ended 30 days ago",
        "goes on",
        "owes work",
    ]
    assert await retention(store).sweep() == 0


@on_every_store
async def test_more_runs_than_one_piece_holds_are_forgotten_too(store: RunStore) -> None:
    count = limits.RETENTION_BATCH_RUNS_MAX * 2 + 50
    await asyncio.gather(
        *(store.append(start(f"r_{number}", **ENDED, labels={"n": str(number)})) for number in range(count))
    )
    assert await retention(store).sweep() == count
    assert await listed(store) == []


@on_every_store
async def test_long_histories_are_forgotten_one_by_one(store: RunStore) -> None:
    for number in range(3):
        long = limits.RETENTION_BATCH_RECORDS_MAX + 1 if number == 1 else 10
        await store.append(start(f"r_{number}", **ENDED, records=long, updated_at=AT + number))
    assert await retention(store).sweep() == 3


def test_a_sweep_that_is_cancelled_leaves_whole_runs() -> None:
    async def scenario(store: RunStore) -> None:
        for number in range(limits.RETENTION_BATCH_RUNS_MAX + 1):
            await store.append(start(f"r_{number}", **ENDED))
        slow = Retention(store=store, clock=ManualClock(AT + DAY_MS), keep_ms=0, pause_seconds=600)
        task = asyncio.ensure_future(slow.sweep())

        async def is_first_piece_done() -> bool:
            return len(await listed(store)) == 1

        await until(is_first_piece_done)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await listed(store)) == 1
        assert await retention(store).sweep() == 1

    run_on(RunStore(TemporaryDatabase()), scenario)


@on_every_store
async def test_runs_are_not_kept_for_less_than_nothing(store: RunStore) -> None:
    with pytest.raises(Rejected, match="INVALID_RETENTION"):
        retention(store, days=-1)


def test_a_program_forgets_long_histories_too(tmp_path: Path) -> None:
    async def body() -> None:
        async with Penstock.open(tmp_path / "penstock.db", perform=False) as penstock:
            for number in range(3):
                long = limits.RETENTION_BATCH_RECORDS_MAX + 1
                await penstock.store.append(start(f"r_{number}", **ENDED, records=long, updated_at=AT + number))
            assert await penstock.delete_ended(older_than_ms=0) == 3
            assert await listed(penstock.store) == []

    asyncio.run(body())

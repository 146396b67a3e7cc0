"""Clocks that are set while servers run: on a real file, with the machine's clock moved under two processes' hosts."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.status import run_status
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.schedules.scheduler import Scheduler
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.schedules import list_schedules
from penstock.runtime.tables.workers import list_workers
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.waiting import SECONDS_MAX

HOUR_MS = 3_600_000
QUARTER_MS = 90 * 24 * HOUR_MS
QUICK: JsonObject = {"penstock": "v1", "name": "quick", "nodes": [{"id": "e", "type": "end", "output": "ok"}]}


class SetClock(SystemClock):
    """The machine's clock as somebody set it, believed at once."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


@asynccontextmanager
async def on_file(folder: Path, clock: SystemClock, name: str = "w") -> AsyncIterator[EmbeddedHost]:
    store = RunStore(SqliteDatabase(folder / "penstock.db"))
    await store.open()
    try:
        yield EmbeddedHost(store=store, clock=clock, worker_id=name)
    finally:
        await store.close()


def bounded(work: Callable[[], object], seconds: float = SECONDS_MAX) -> None:
    async def run() -> None:
        async with asyncio.timeout(seconds):
            await work()  # type: ignore[misc]  # a coroutine function

    asyncio.run(run())


@pytest.mark.parametrize("another", [False, True], ids=["the same process", "another process"])
def test_three_months_ahead_for_a_moment_leave_no_schedule_in_the_future(tmp_path: Path, another: bool) -> None:
    async def work() -> None:
        clock = SetClock()
        async with on_file(tmp_path, clock) as host:
            await host.register(build_workflow(QUICK))
            scheduler = Scheduler(host=host, store=host.store)
            await scheduler.put("daily", "quick", {"cron": "0 3 * * *"})
            clock.ahead_ms = QUARTER_MS
            await scheduler.fire_due()
            [ahead] = await list_schedules(host.store.database)
            assert ahead.next_at is not None
            assert ahead.next_at > QUARTER_MS + time.time_ns() // 1_000_000
            clock.ahead_ms = 0
            await (Scheduler(host=host, store=host.store) if another else scheduler).fire_due()
            [row] = await list_schedules(host.store.database)
            assert row.next_at is not None
            assert row.next_at <= clock.now_ms() + 24 * HOUR_MS

    bounded(work)


def test_an_hour_between_the_clocks_of_two_healthy_servers_sends_no_run_into_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WORKER_LEASE_MS", 1_800)
    monkeypatch.setattr(limits, "WORKER_LEASE_MARGIN_MS", 400)

    async def work() -> None:
        ahead = SetClock()
        async with on_file(tmp_path, SystemClock(), "one") as first, on_file(tmp_path, ahead, "two") as second:
            performer = ScriptedPerformer(gates={"charge": asyncio.Event()})
            drivers = [Driver(host=host, performer=performer) for host in (first, second)]
            for driver in drivers:
                await driver.start()
            bench = Bench(first, performer)
            await bench.start(native(step("charge", effects="at_most_once"), END))
            for jump in (HOUR_MS, -HOUR_MS, QUARTER_MS):
                ahead.ahead_ms = jump
                heard = {row.worker_id: row.beats for row in await list_workers(first.store.database)}
                while any(row.beats < heard[row.worker_id] + 4 for row in await list_workers(first.store.database)):
                    await first.next_commit(timeout_seconds=0.2)
                state = await first.read("r")
                assert state is not None
                assert run_status(state) == "waiting_activity"
            performer.gates["charge"].set()
            await bench.ended()
            assert performer.calls == ["r/charge/1/1"]
            for driver in drivers:
                await driver.stop()

    bounded(work)


def test_a_step_of_the_machines_clock_is_not_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, really = SystemClock(), time.time_ns
    before = clock.now_ms()
    monkeypatch.setattr(time, "time_ns", lambda: really() + QUARTER_MS * 1_000_000)
    assert clock.now_ms() - before < HOUR_MS
    monkeypatch.setattr(time, "time_ns", really)
    given = inputs.StartRun(at=clock.now_ms(), run_id="r", input={})
    assert given.at - before < HOUR_MS

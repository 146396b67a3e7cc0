"""Work that nobody has is noticed, reported and gone on with, without a restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.base.errors import PenstockError, Unavailable
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.host import LiveRun
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.failing_database import FailingDatabase
from tests.waiting import SECONDS_MAX

every_store = pytest.mark.parametrize("kind", ["memory", "sqlite"])


@asynccontextmanager
async def shop_on(store: RunStore) -> AsyncIterator[tuple[Bench, Driver, list[str]]]:
    await store.open()
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="here")
    performer = ScriptedPerformer()
    reports: list[str] = []

    def report(where: str, error: BaseException) -> None:
        reports.append(error.code if isinstance(error, PenstockError) else repr(error))

    driver = Driver(host=host, performer=performer, report=report)
    await driver.start()
    try:
        async with asyncio.timeout(SECONDS_MAX):
            yield Bench(host, performer), driver, reports
    finally:
        await driver.stop()
        await store.close()


def store_of(kind: str, folder: Path) -> RunStore:
    return RunStore(TemporaryDatabase()) if kind == "memory" else RunStore(SqliteDatabase(folder / "penstock.db"))


async def lose(bench: Bench, driver: Driver, document: JsonObject) -> None:
    """Start a run of which nobody here hears."""
    bench.host.on_commit = lambda committed: None
    await bench.start(document)
    bench.host.on_commit = driver.committed


@every_store
@pytest.mark.parametrize("forgotten", [False, True], ids=["in_memory", "forgotten"])
def test_a_run_that_nobody_has_is_reported_and_gone_on_with(kind: str, forgotten: bool, tmp_path: Path) -> None:
    async def body() -> None:
        async with shop_on(store_of(kind, tmp_path)) as (bench, driver, reports):
            await lose(bench, driver, native(step("pay"), END))
            if forgotten:
                bench.host._live.clear()
            await bench.ended()
            assert bench.performer.calls == ["r/pay/1/1"]
            assert (driver.abandoned.found, reports) == (1, ["RUN_ABANDONED"])

    asyncio.run(body())


@every_store
def test_what_may_have_happened_once_is_not_done_again_by_the_watchdog(kind: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with shop_on(store_of(kind, tmp_path)) as (bench, driver, _):
            await lose(bench, driver, native(step("pay", effects="at_most_once"), END))
            await bench.status("waiting_decision")
            assert bench.performer.calls == []

    asyncio.run(body())


@every_store
def test_a_run_that_is_worked_on_or_waits_for_a_child_is_not_abandoned(kind: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with shop_on(store_of(kind, tmp_path)) as (bench, driver, reports):
            gate = bench.performer.gates["slow"] = asyncio.Event()
            await bench.host.register(build_workflow(native(step("slow"), END, name="child")))
            calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "child", "input": {}}
            await bench.start(native(calls, END))
            await bench.status("waiting_activity", "r:sub:sub")
            bench.host._live.pop("r")  # as when memory is wanted for others
            for _ in range(3):
                await driver.abandoned.look()
            gate.set()
            await bench.ended()
            assert (driver.abandoned.found, reports) == (0, [])

    asyncio.run(body())


@every_store
def test_a_run_that_going_on_with_does_not_help_is_stuck(kind: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with shop_on(store_of(kind, tmp_path)) as (bench, driver, reports):
            go_on = driver.abandoned.pick_up

            async def in_vain(live: LiveRun) -> None:
                """Nothing comes of it."""

            driver.abandoned.pick_up = in_vain
            await lose(bench, driver, native(step("pay"), END))
            while not driver.abandoned.stuck:
                await driver.abandoned.look()
            assert driver.abandoned.stuck == ("r",)
            assert (driver.abandoned.found, reports) == (1, ["RUN_ABANDONED"] * limits.ABANDONED_PICK_UPS_MAX)
            live = await bench.host.live("r")
            assert live is not None
            await go_on(live)
            await bench.ended()
            for _ in range(2):  # those of the last round, and those of this one
                await driver.abandoned.look()
            assert not driver.abandoned.stuck

    asyncio.run(body())


class Unreliable(RunStore):
    """A store that cannot for a moment."""

    def __init__(self) -> None:
        self.failing = FailingDatabase()
        super().__init__(self.failing)
        self.failures = 0

    def fail(self) -> None:
        if self.failures > 0:
            self.failures -= 1
            raise Unavailable("STORE_BUSY", "not now")

    async def due(self, *, owner: str, now: int, limit: int, root_run_id: str | None = None) -> tuple[str, ...]:
        if self.failures > 0:
            self.failures -= 1
            raise Unavailable("STORE_BUSY", "not now")
        return await super().due(owner=owner, now=now, limit=limit, root_run_id=root_run_id)


def test_timers_fire_after_the_store_could_not_be_read() -> None:
    async def body() -> None:
        store = Unreliable()
        async with shop_on(store) as (bench, driver, reports):
            store.failures = 2
            driver.nudge()
            while not reports:
                await bench.host.next_commit(timeout_seconds=0.1)
            await bench.start(native({"id": "nap", "type": "wait", "duration": "10ms"}, END))
            await bench.ended()

    asyncio.run(body())


def test_a_child_is_started_and_its_end_told_after_the_store_could_not_be_written() -> None:
    async def body() -> None:
        store = Unreliable()
        async with shop_on(store) as (bench, _, reports):
            gate = bench.performer.gates["slow"] = asyncio.Event()
            await bench.host.register(build_workflow(native(step("slow"), END, name="child")))
            calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "child", "input": {}}
            store.failing.before_append = store.fail
            await bench.start(native(step("first"), calls, END))
            store.failures = 3
            await bench.status("waiting_activity", "r:sub:sub")
            store.failures = 3
            gate.set()
            await bench.ended()
            assert "STORE_BUSY" in reports

    asyncio.run(body())

"""Who performs the work of a run when several processes share a store, and what each must leave alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from penstock.base.json import JsonObject
from penstock.engine import inputs
from penstock.engine.outcomes import Accepted, Refused
from penstock.engine.status import run_status
from penstock.runtime.activities.performing import ActivityCall, ActivityOutcome
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import remove_worker
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.opened_database import run_on

ASK: JsonObject = {"id": "ask", "type": "interrupt", "message": "ok?"}
ONCE: JsonObject = {"effects": "at_most_once"}


class Watched(ScriptedPerformer):
    """Says when the first attempt begins."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        self.begun.set()
        return await super().perform(call)


@dataclass
class Shop(Bench):
    """A bench whose performer can be waited for."""

    performer: Watched


def looking(store: RunStore) -> EmbeddedHost:
    """A process that performs nothing, like `penstock runs answer`."""
    return EmbeddedHost(store=store, clock=SystemClock(), worker_id="looking", performs=False)


@asynccontextmanager
async def working(
    store: RunStore, worker_id: str, *, root_run_id: str | None = None
) -> AsyncIterator[tuple[Shop, Driver]]:
    """A process that performs, like `penstock server worker`."""
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=worker_id, root_run_id=root_run_id)
    performer = Watched()
    driver = Driver(host=host, performer=performer)
    await driver.start()
    try:
        yield Shop(host, performer), driver
    finally:
        await driver.stop()


def now() -> int:
    return SystemClock().now_ms()


async def answer(host: EmbeddedHost, run_id: str = "r") -> None:
    assert isinstance(await host.send(run_id, inputs.AnswerInterrupt(at=now(), answer={})), Accepted)


async def row_of(store: RunStore, run_id: str = "r") -> RunRow:
    row = await store.row(run_id)
    assert row is not None
    return row


def test_work_that_nobody_had_is_not_in_doubt() -> None:
    async def body(store: RunStore) -> None:
        beside = looking(store)
        await Bench(beside, ScriptedPerformer()).start(native(ASK, step("pay", **ONCE), END))
        await answer(beside)
        assert ((await row_of(store)).owner, (await row_of(store)).has_work) == (None, True)
        async with working(store, "one") as (bench, _):
            await bench.ended()
            assert bench.performer.calls == ["r/pay/1/1"]

    run_on(RunStore(TemporaryDatabase()), body)


def test_work_that_somebody_had_who_is_gone_is_in_doubt_whoever_touched_the_run_since() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (bench, driver):
            bench.performer.gates["pay"] = asyncio.Event()
            await bench.start(native(step("pay", **ONCE), END))
            await bench.performer.begun.wait()
            await driver.stop()  # in the middle of the attempt
        beside = looking(store)
        assert isinstance(await beside.send("r", inputs.SendSignal(at=now(), name="hello")), Accepted)
        assert (await row_of(store)).owner == "one"
        async with working(store, "two") as (bench, _):
            assert run_status(await bench.status("waiting_decision")) == "waiting_decision"
            assert bench.performer.calls == []

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_change_by_somebody_else_does_not_begin_work_twice() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (one, driver), working(store, "two") as (two, second):
            one.performer.gates["pay"] = asyncio.Event()
            await one.start(native(step("pay", **ONCE), END))
            await one.performer.begun.wait()
            # Both a process that performs nothing and one that performs leave the run to who has it.
            for host in (looking(store), two.host):
                assert isinstance(await host.send("r", inputs.SendSignal(at=now(), name="hello")), Accepted)
                assert (await row_of(store)).owner == "one"
            for each in (driver, second):
                await each._take_over()
                await each._follow_owned_runs()
            one.performer.gates["pay"].set()
            await one.ended()
            assert (one.performer.calls, two.performer.calls) == (["r/pay/1/1"], [])

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_cancellation_by_somebody_else_reaches_the_attempt() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (bench, driver):
            bench.performer.gates["pay"] = asyncio.Event()
            await bench.start(native(step("pay"), END))
            live = await bench.host.live("r")
            assert live is not None
            await bench.performer.begun.wait()
            (task,) = live.tasks.values()
            assert isinstance(await looking(store).send("r", inputs.CancelRun(at=now())), Accepted)
            await driver._follow_owned_runs()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_on(RunStore(TemporaryDatabase()), body)


def test_an_attempt_whose_run_was_taken_over_is_given_up() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (bench, driver):
            bench.performer.gates["pay"] = asyncio.Event()
            await bench.start(native(step("pay"), END))
            await bench.performer.begun.wait()
            live = await bench.host.live("r")
            assert live is not None
            (task,) = live.tasks.values()
            assert await remove_worker(store.database, "one")
            assert await store.claim(owner="two", limit=9) == ("r",)
            await driver._follow_owned_runs()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_refusal_is_decided_on_what_is_stored_now() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (bench, _):
            second: JsonObject = {**ASK, "id": "again"}
            await bench.start(native(ASK, second, END))
            await bench.status("waiting_input")
            await answer(looking(store))
            given = inputs.AnswerInterrupt(at=now(), answer={}, node_id="again")
            assert isinstance(await bench.host.send("r", given), Accepted)
            assert isinstance(await bench.host.send("r", given), Refused)

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_process_for_one_run_leaves_other_runs_alone() -> None:
    async def body(store: RunStore) -> None:
        beside = Bench(looking(store), ScriptedPerformer())
        nap: JsonObject = {"id": "nap", "type": "wait", "duration": "1ms"}
        for run_id in ("mine", "other"):
            await beside.start(native(nap, step("pay"), END), run_id=run_id)
        await beside.start(native(step("pay"), END), run_id="mine:sub:x")
        await beside.start(native(step("pay"), END), run_id="mine2")
        async with working(store, "one", root_run_id="mine") as (bench, driver):
            await bench.ended("mine")
            await bench.ended("mine:sub:x")
            await driver._take_over()
            assert isinstance(await bench.host.send("mine2", inputs.SendSignal(at=now(), name="x")), Accepted)
            assert (await row_of(store, "mine2")).owner is None
            assert (await row_of(store, "other")).status == "waiting_timer"
            assert await store.has_unclaimed()
            assert not await store.has_unclaimed(root_run_id="mine")
            assert sorted(bench.performer.calls) == ["mine/pay/1/1", "mine:sub:x/pay/1/1"]

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_drained_driver_finishes_its_attempts_and_hands_on_the_rest() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (bench, driver):
            bench.performer.gates["pay"] = asyncio.Event()
            await bench.start(native(step("pay"), step("thank", **ONCE), END))
            await bench.performer.begun.wait()
            draining = asyncio.ensure_future(driver.drain(timeout_seconds=240))
            await asyncio.sleep(0)
            bench.performer.gates["pay"].set()
            assert await draining == 0
            assert bench.performer.calls == ["r/pay/1/1"]
            assert ((await row_of(store)).owner, (await row_of(store)).has_work) == (None, True)
        async with working(store, "two") as (bench, _):
            await bench.ended()
            assert bench.performer.calls == ["r/thank/1/1"]

    run_on(RunStore(TemporaryDatabase()), body)


def test_what_does_not_finish_while_draining_stays_in_doubt() -> None:
    async def body(store: RunStore) -> None:
        async with working(store, "one") as (bench, driver):
            bench.performer.gates["pay"] = asyncio.Event()
            await bench.start(native(step("pay", **ONCE), END))
            await bench.performer.begun.wait()
            assert await driver.drain(timeout_seconds=0) == 1
            assert (await row_of(store)).owner == "one"
        async with working(store, "two") as (bench, _):
            await bench.status("waiting_decision")

    run_on(RunStore(TemporaryDatabase()), body)

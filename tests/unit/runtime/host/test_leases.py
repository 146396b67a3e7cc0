"""The lease of a process: what it may begin, when it has to ask, and what it does when it has lost everything."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.engine import inputs
from penstock.engine.status import run_status
from penstock.runtime.activities.performing import ActivityCall, ActivityOutcome
from penstock.runtime.executors.step.threads import DaemonThreads, confirmed_in_thread
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.host.leases import DeadWorkerDetector, HeldLease, WorkerLease
from penstock.runtime.ports.runs import WorkerRow
from penstock.runtime.semaphores import FairSemaphore
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.tables.workers import list_workers, remove_worker
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.failing_database import FailingDatabase
from tests.opened_database import run_on
from tests.unit.runtime.executors.calls import call_of
from tests.waiting import SECONDS_MAX

ONCE: JsonObject = {"effects": "at_most_once"}
HOUR_MS = 3_600_000
GAP_MS = 30_000


class Counting(ScriptedPerformer):
    """Remembers in which epoch each attempt began."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []
        self.begun = asyncio.Event()

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        self.begun.set()
        self.epochs.append(call.epoch)
        return await super().perform(call)


@asynccontextmanager
async def working(
    store: RunStore, name: str, clock: ManualClock, *, places: int = 9
) -> AsyncIterator[tuple[Bench, Driver, Counting]]:
    """A process that performs, with a clock of its own."""
    host, performer = EmbeddedHost(store=store, clock=clock, worker_id=name), Counting()
    driver = Driver(host=host, performer=performer, _slots=FairSemaphore(places))
    await driver.start()
    try:
        yield Bench(host, performer), driver, performer
    finally:
        await driver.stop()


def lease_on(store: RunStore, clock: ManualClock, lost: list[str] | None = None) -> WorkerLease:
    lost = list[str]() if lost is None else lost
    return WorkerLease(store=store, clock=clock, worker_id="w", on_lost=lost.append)


def test_within_its_lease_a_process_begins_without_asking_the_store() -> None:
    writes = 0

    def count() -> None:
        nonlocal writes
        writes += 1

    async def body(store: RunStore) -> None:
        clock = ManualClock(1)
        lease = lease_on(store, clock)
        assert not lease.holds("w")
        await lease.renew()
        database.before_write = count
        for _ in range(1_000):
            await call_with(lease).confirm()
        assert writes == 0
        clock.elapse(limits.WORKER_LEASE_MS - limits.WORKER_LEASE_MARGIN_MS)
        await asyncio.gather(*(call_with(lease).confirm() for _ in range(1_000)))
        assert writes == 1

    database = FailingDatabase()
    run_on(RunStore(database), body)


def call_with(lease: WorkerLease, holder: str = "w") -> ActivityCall:
    plain = call_of("step", {})
    return ActivityCall(
        run_id="r", workflow_name="w", activity=plain.activity, epoch=1, ownership=HeldLease(lease, holder)
    )


def test_a_lease_counts_from_before_the_sign_of_life_was_stored() -> None:
    async def body(store: RunStore) -> None:
        clock = ManualClock(1)
        lease = lease_on(store, clock)
        await lease.renew()
        database.before_write = lambda: clock.elapse(GAP_MS)  # suspended while it is being stored
        await lease.renew()
        assert not lease.holds("w")

    database = FailingDatabase()
    run_on(RunStore(database), body)


def test_a_gap_that_nobody_used_does_no_harm() -> None:
    async def body(store: RunStore) -> None:
        clock, lost = ManualClock(1), list[str]()
        lease = lease_on(store, clock, lost)
        await lease.renew()
        clock.elapse(GAP_MS)
        assert not lease.holds("w")
        assert await lease.confirm("w")
        assert lease.holds("w")
        assert lost == []

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_worker_that_was_struck_off_goes_on_under_another_name() -> None:
    async def body(store: RunStore) -> None:
        clock, lost = ManualClock(1), list[str]()
        lease = lease_on(store, clock, lost)
        names = [lease.worker_id]
        await lease.renew()
        for _ in range(2):
            await remove_worker(store.database, lease.worker_id)
            clock.elapse(GAP_MS)
            assert not await lease.confirm(lease.worker_id)
            names.append(lease.worker_id)
        assert lost == names[:2]
        assert len(set(names)) == 3
        assert [row.worker_id for row in await list_workers(store.database)] == names[2:]
        with pytest.raises(asyncio.CancelledError):
            await call_with(lease).confirm()

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_process_that_stops_is_not_listed_again_by_a_sign_of_life_under_way() -> None:
    async def body(store: RunStore) -> None:
        clock = ManualClock(1)
        lease = lease_on(store, clock)
        await lease.renew()
        await remove_worker(store.database, "w")
        renewing = asyncio.ensure_future(lease.renew())
        await asyncio.sleep(0)
        await lease.give_up()
        await renewing
        assert await list_workers(store.database) == ()
        assert not lease.holds(lease.worker_id)

    run_on(RunStore(TemporaryDatabase()), body)


def test_nothing_begins_while_the_store_cannot_say_whose_it_is() -> None:
    async def body(store: RunStore) -> None:
        clock = ManualClock(1)
        lease = lease_on(store, clock)
        await lease.renew()
        clock.elapse(GAP_MS)
        asked = asyncio.Event()

        def fail() -> None:
            asked.set()
            raise Unavailable("STORE_FULL", "no space left", "make some")

        database.before_write = fail
        confirming = asyncio.ensure_future(lease.confirm("w"))
        await asked.wait()
        assert not confirming.done()
        database.before_write = lambda: None
        assert await confirming

    database = FailingDatabase()
    run_on(RunStore(database), body)


def test_work_that_waited_for_a_thread_is_confirmed_in_that_thread() -> None:
    async def body(store: RunStore) -> None:
        clock = ManualClock(1)
        lease, threads, loop = lease_on(store, clock), DaemonThreads(1, name="test"), asyncio.get_running_loop()
        await lease.renew()
        assert await threads.run(lambda: confirmed_in_thread(call_with(lease), loop))
        clock.elapse(GAP_MS)
        assert await threads.run(lambda: confirmed_in_thread(call_with(lease), loop))
        clock.elapse(GAP_MS)
        await remove_worker(store.database, "w")
        assert not await threads.run(lambda: confirmed_in_thread(call_with(lease), loop))
        threads.close()

    run_on(RunStore(TemporaryDatabase()), body)


def on_two(body: Callable[[RunStore, ManualClock, ManualClock], Coroutine[Any, Any, None]]) -> None:
    run_on(RunStore(TemporaryDatabase()), lambda store: body(store, ManualClock(1_000_000), ManualClock(1_000_000)))


async def heard_of_nobody(driver: Driver, clock: ManualClock) -> None:
    """Let a process look at the others for as long as a lease, while they give no sign of life."""
    for _ in range(4):
        await driver._remove_dead_workers()
        clock.elapse(limits.WORKER_LEASE_MS // 2)
    await driver._take_over()


def test_what_waits_for_its_turn_in_a_process_that_lost_its_lease_is_dropped() -> None:
    async def body(store: RunStore, first_clock: ManualClock, clock: ManualClock) -> None:
        async with working(store, "one", first_clock, places=1) as (one, first, slow):
            slow.gates["pay"] = asyncio.Event()
            await one.start(native(step("pay"), step("thanks", **ONCE), END), run_id="under way")
            for number in range(5):
                await one.start(native(step("charge", **ONCE), END, name="charge"), run_id=f"c{number}")
            async with working(store, "two", clock) as (two, second, quick):
                await heard_of_nobody(second, clock)
                for number in range(5):
                    await two.status("waiting_decision", f"c{number}")
                    retry = inputs.RetryActivity(at=two.now(), node_id="charge")
                    await two.host.send(f"c{number}", retry)
                    await two.ended(f"c{number}")
                await two.ended("under way")
                first_clock.elapse(GAP_MS)  # the first wakes up
                slow.gates["pay"].set()
                await asyncio.wait(first._tasks - first._loops, timeout=SECONDS_MAX)
                assert not first.busy
                assert [effect for effect in slow.calls if "/charge/" in effect] == []
                assert [effect for effect in slow.calls if "/thanks/" in effect] == []
                assert sorted(effect for effect in quick.calls if "/charge/" in effect) == [
                    f"c{number}/charge/1/2" for number in range(5)
                ]
                assert slow.epochs == [1]
                assert min(quick.epochs) > 1

    on_two(body)


def test_an_owner_that_comes_back_has_a_new_name_and_a_new_epoch() -> None:
    async def body(store: RunStore, clock: ManualClock, other: ManualClock) -> None:
        async with working(store, "one", clock) as (bench, driver, performer):
            performer.gates["pay"] = asyncio.Event()
            await bench.start(native(step("pay"), END))
            await performer.begun.wait()
            await remove_worker(store.database, "one")
            await driver._lease.renew()
            assert bench.host.worker_id != "one"
            performer.gates["pay"].set()
            await driver._take_over()
            await bench.ended()
            assert performer.epochs == [1, 2]

    on_two(body)


def test_a_clock_that_is_an_hour_ahead_sends_nothing_into_doubt() -> None:
    async def body(store: RunStore, first_clock: ManualClock, clock: ManualClock) -> None:
        async with (
            working(store, "one", first_clock) as (one, first, slow),
            working(store, "two", clock) as (_, second, quick),
        ):
            slow.gates["pay"] = asyncio.Event()
            await one.start(native(step("pay", **ONCE), END))
            for jump in (HOUR_MS, -HOUR_MS, 90 * 24 * HOUR_MS, -90 * 24 * HOUR_MS):
                clock.advance(jump)
                for _ in range(5):
                    await first._lease.renew()
                    await second._lease.renew()
                    await second._remove_dead_workers()
                    await second._take_over()
                    for passing in (first_clock, clock):
                        passing.elapse(limits.WORKER_LEASE_MS // 3)
                state = await one.host.read("r")
                assert state is not None
                assert run_status(state) == "waiting_activity"
            slow.gates["pay"].set()
            await one.ended()
            assert (len(slow.calls), quick.calls) == (1, [])

    on_two(body)


def test_silence_is_heard_by_the_listeners_own_clock() -> None:
    clock = ManualClock(0)
    watch = DeadWorkerDetector(clock)
    silent = WorkerRow(worker_id="silent", beats=7, seen_at=0)
    for beats in range(10):
        alive = WorkerRow(worker_id="alive", beats=beats, seen_at=HOUR_MS)
        found = watch.look([silent, alive])
        assert found == ([silent] if beats * 1_000 >= limits.WORKER_LEASE_MS else [])
        clock.elapse(1_000)


def test_a_listener_that_was_suspended_itself_does_not_take_that_for_silence() -> None:
    clock = ManualClock(0)
    watch = DeadWorkerDetector(clock)
    worker = WorkerRow(worker_id="w", beats=7, seen_at=0)
    assert watch.look([worker]) == []
    clock.elapse(HOUR_MS)  # both were stopped, and this one looks first
    assert watch.look([worker]) == []
    assert watch.look([WorkerRow(worker_id="w", beats=8, seen_at=0)]) == []

"""The flat path: results that lead straight on take it, everything else goes as any input does, and both end alike."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.outcomes import Accepted
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.commits import Commit, in_this_context
from penstock.runtime.ports.host import LiveRun
from penstock.runtime.ports.runs import Appended, SequenceConflict
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.hosts import END, native, step
from tests.failing_database import FailingDatabase
from tests.opened_database import run_on

LINE = native(step("one"), step("two"), step("three"), END)
LOOKING: ContextVar[str] = ContextVar("looking", default="nowhere")


class Performer:
    """Every activity is done at once; remembers in which context each was."""

    def __init__(self) -> None:
        self.contexts: list[str] = []

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        self.contexts.append(LOOKING.get())
        return ActivityDone("done")


class Counting(EmbeddedHost):
    """Counts the results that took the way of any input."""

    sent = 0

    async def send(self, run_id: str, given: inputs.Input, **more: Any) -> Any:
        Counting.sent += 1
        return await super().send(run_id, given, **more)


@asynccontextmanager
async def hosting(store: RunStore, faults: list[BaseException]) -> AsyncIterator[tuple[EmbeddedHost, Performer]]:
    Counting.sent = 0
    host, performer = Counting(store=store, clock=SystemClock(), worker_id="w"), Performer()
    driver = Driver(host=host, performer=performer, report=lambda where, error: faults.append(error))
    await driver.start()
    try:
        yield host, performer
    finally:
        await driver.stop()


async def started(host: EmbeddedHost, document: JsonObject, run_id: str = "r") -> None:
    workflow = build_workflow(document)
    await host.register(workflow)
    given = inputs.StartRun(at=host.clock.now_ms(), run_id=run_id, input={})
    assert isinstance(await host.start(given, workflow_hash=workflow.hash), Accepted)


def on(store: RunStore, body: Callable[[EmbeddedHost, Performer], Coroutine[Any, Any, None]]) -> list[Any]:
    faults: list[BaseException] = []

    async def run(store: RunStore) -> None:
        async with hosting(store, faults) as (host, performer):
            await body(host, performer)

    run_on(store, run)
    return faults


async def ended(host: EmbeddedHost, run_id: str = "r") -> str:
    state = await host.wait_for_end(run_id, timeout_seconds=240)
    assert state is not None
    return str(state.status)


def test_results_that_lead_straight_on_are_not_sent_as_other_inputs_are() -> None:
    async def body(host: EmbeddedHost, performer: Performer) -> None:
        await started(host, LINE)
        assert await ended(host) == "completed"
        assert Counting.sent == 0
        names = [record.name for record in await host.history("r")]
        assert names.count("ActivityCompleted") == 3

    assert on(RunStore(TemporaryDatabase()), body) == []


def test_what_does_not_lead_straight_on_is_sent() -> None:
    branching = native(
        {"id": "both", "type": "parallel", "branches": [{"name": name, "nodes": [step(name)]} for name in "ab"]}, END
    )

    async def body(host: EmbeddedHost, performer: Performer) -> None:
        await started(host, branching)
        assert await ended(host) == "completed"
        assert Counting.sent == 2

    assert on(RunStore(TemporaryDatabase()), body) == []


def test_activities_begin_in_the_context_of_the_caller_that_started_the_run() -> None:
    async def body(host: EmbeddedHost, performer: Performer) -> None:
        LOOKING.set("here")
        await started(host, LINE)
        await ended(host)
        assert performer.contexts == ["here"] * 3

    assert on(RunStore(TemporaryDatabase()), body) == []


def test_a_result_that_the_store_cannot_take_is_offered_again() -> None:
    database, refused = FailingDatabase(), [3]

    def before_append() -> None:
        if refused[0] > 0:
            refused[0] -= 1
            raise Unavailable("STORE_FULL", "no room", "make room")

    async def body(host: EmbeddedHost, performer: Performer) -> None:
        await started(host, LINE)
        database.before_append = before_append
        assert await ended(host) == "completed"
        assert len(performer.contexts) == 3  # nothing was done twice

    faults = on(RunStore(database), body)
    assert refused == [0]
    assert {type(fault) for fault in faults} == {Unavailable}


async def waiting(host: EmbeddedHost) -> tuple[LiveRun, inputs.CompleteActivity]:
    """A run whose first activity nobody performs, and a result of it."""
    await started(host, LINE)
    live = await host.live("r")
    assert live is not None
    return live, inputs.CompleteActivity(at=host.clock.now_ms(), node_id="one", visit=1, attempt=1, result="done")


def test_a_run_that_is_just_being_changed_is_left_alone() -> None:
    async def body(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        live, given = await waiting(host)
        assert live.lock.try_acquire()
        assert host.try_move(live, given) is None
        live.lock.release()
        commit = host.try_move(live, given)
        assert commit is not None
        assert await commit == Appended()
        assert not live.lock.locked()
        assert live.state.visits == {"one": 1, "two": 1}

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_move_of_a_run_that_is_elsewhere_by_now_changes_nothing() -> None:
    async def body(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        live, given = await waiting(host)
        elsewhere = EmbeddedHost(store=store, clock=SystemClock(), worker_id="other")
        await elsewhere.send("r", given)
        before = live.state
        commit = host.try_move(live, given)
        assert commit is not None
        assert await commit == SequenceConflict()
        assert live.state is before
        assert not live.lock.locked()

    run_on(RunStore(TemporaryDatabase()), body)


def test_what_follows_a_commit_happens_before_whoever_waits_goes_on_and_although_they_are_cancelled() -> None:
    async def body() -> None:
        told: list[str] = []
        commit: Commit[str] = Commit(loop=asyncio.get_running_loop())
        commit.and_then(lambda outcome: told.append(f"followed {outcome}"))

        async def wait() -> None:
            try:
                await commit
            finally:
                told.append("heard")

        waiter = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiter.cancel()
        commit.settle("stored")
        assert told == ["followed stored"]
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert told == ["followed stored", "heard"]

    asyncio.run(body())


def test_a_commit_that_fails_is_told_to_what_follows_and_raised_where_it_is_waited_for() -> None:
    async def body() -> None:
        told: list[str | None] = []
        commit: Commit[str] = Commit(loop=asyncio.get_running_loop())
        commit.and_then(told.append)
        commit.fail(Unavailable("STORE_FULL", "no room", "make room"))
        with pytest.raises(Unavailable):
            await commit
        commit.and_then(told.append)
        assert told == [None, None]

    asyncio.run(body())


def test_an_error_in_what_follows_is_told_to_the_loop_and_what_was_stored_stays_acknowledged() -> None:
    async def body() -> None:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

        def broken(outcome: str | None) -> None:
            raise ValueError("broken")

        commit: Commit[str] = Commit(loop=asyncio.get_running_loop())
        commit.and_then(in_this_context(broken))
        commit.settle("stored")
        assert await commit == "stored"
        assert [str(error) for error in told] == ["broken"]

    asyncio.run(body())


class Loads(RunStore):
    """Counts how often a run is read with its history."""

    loads = 0

    async def load(self, run_id: str) -> Any:
        self.loads += 1
        return await super().load(run_id)


def test_who_waits_for_an_input_to_be_stored_finds_the_run_in_memory() -> None:
    async def body(store: Loads) -> None:
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        live, given = await waiting(host)
        with host.watched("r", after_seq=live.state.seq) as moved:
            sending = asyncio.ensure_future(host.send("r", given))
            await moved
            state = await host.read("r")
        await sending
        assert state is live.state
        assert store.loads == 0

    run_on(Loads(TemporaryDatabase()), body)

"""Waiting for runs: everybody is woken in time, and one look at the store serves all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.state import RunState
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.host.waiters import RunWatch
from penstock.runtime.ports.host import LiveRun
from penstock.runtime.ports.runs import AppendOutcome, RunPosition, RunWrite, StoredRun
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import run_on
from tests.waiting import SECONDS_MAX, turns

WAITS: JsonObject = {
    "penstock": "v1",
    "name": "waits",
    "nodes": [{"id": "w", "type": "wait", "signal": "go"}, {"id": "e", "type": "end", "output": "ok"}],
}


def hosted(test: Callable[[EmbeddedHost, EmbeddedHost], Awaitable[None]]) -> None:
    """Run a test with two hosts on one store, as two processes would be, and a waiting run `r`."""

    async def body(store: RunStore) -> None:
        here, there = (
            EmbeddedHost(store=store, clock=ManualClock(1), worker_id=name, performs=False)
            for name in ("here", "there")
        )
        workflow = build_workflow(WAITS)
        await here.register(workflow)
        await here.start(inputs.StartRun(at=1, run_id="r", input={}), workflow_hash=workflow.hash)
        await test(here, there)

    run_on(RunStore(TemporaryDatabase()), body)


class SlowToTell(RunStore):
    """Has stored a write some time before it says so, as a store that is written to in another thread has."""

    def __init__(self) -> None:
        super().__init__(TemporaryDatabase())
        self.stored = asyncio.Event()
        self.tells = asyncio.Event()
        self.tells.set()

    async def append(self, write: RunWrite) -> AppendOutcome:
        outcome = await super().append(write)
        self.stored.set()
        await self.tells.wait()
        return outcome


def test_a_run_is_read_as_it_is_stored_while_its_transition_is_under_way() -> None:
    async def body(store: SlowToTell) -> None:
        host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="here")
        workflow = build_workflow(WAITS)
        await host.register(workflow)
        await host.start(inputs.StartRun(at=1, run_id="r", input={}), workflow_hash=workflow.hash)
        store.stored.clear()
        store.tells.clear()
        going = asyncio.ensure_future(go(host))
        await store.stored.wait()
        assert [record.seq for record in await host.history("r")][-1] > 2
        state = await host.read("r")
        assert state is not None
        assert (state.status, state.result) == ("completed", "ok")
        store.tells.set()
        await going

    run_on(SlowToTell(), body)


class SlowToLoad(RunStore):
    """Hands out what it read some time after it has read it; somebody may ask just after something was stored."""

    def __init__(self) -> None:
        super().__init__(TemporaryDatabase())
        self.was_read = asyncio.Event()
        self.hands_out = asyncio.Event()
        self.just_stored: Callable[[], Awaitable[None]] | None = None

    async def load(self, run_id: str) -> StoredRun | None:
        stored = await super().load(run_id)
        self.was_read.set()
        await self.hands_out.wait()
        return stored

    async def append(self, write: RunWrite) -> AppendOutcome:
        outcome = await super().append(write)
        just_stored, self.just_stored = self.just_stored, None
        if just_stored is not None:
            await just_stored()
        return outcome


@pytest.mark.parametrize("signals", [1, 2])
def test_a_run_that_was_loaded_while_it_moved_on_is_not_taken_back(signals: int) -> None:
    async def body(store: SlowToLoad) -> None:
        host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="here")
        nodes: list[JsonValue] = [{"id": name, "type": "wait", "signal": "go"} for name in ("a", "b")]
        workflow = build_workflow(
            {"penstock": "v1", "name": "two", "nodes": [*nodes, {"id": "e", "type": "end", "output": "ok"}]}
        )
        await host.register(workflow)
        loads: list[asyncio.Future[LiveRun | None]] = []

        async def load_it() -> None:
            loads.append(asyncio.ensure_future(host.live("r")))
            await store.was_read.wait()

        store.just_stored = load_it
        await host.start(inputs.StartRun(at=1, run_id="r", input={}), workflow_hash=workflow.hash)
        for _ in range(signals):
            await go(host)
        # What was read before all this comes now: after one signal the run is in memory, after two it is not any more.
        store.hands_out.set()
        (live,) = [await load for load in loads]
        state = await host.read("r")
        assert live is not None
        assert state is not None
        assert live.state.seq == state.seq == (await host.history("r"))[-1].seq

    run_on(SlowToLoad(), body)


async def go(host: EmbeddedHost) -> None:
    await host.send("r", inputs.SendSignal(at=2, name="go"))


def test_a_commit_here_wakes_at_once_with_the_state() -> None:
    async def test(here: EmbeddedHost, there: EmbeddedHost) -> None:
        seq = (await here.wait("r", after_seq=0, timeout_seconds=0)).seq  # type: ignore[union-attr]
        waiting = asyncio.ensure_future(here.wait("r", after_seq=seq, timeout_seconds=SECONDS_MAX))
        ending = asyncio.ensure_future(here.wait_for_end("r", timeout_seconds=SECONDS_MAX))
        await turns()
        await go(here)
        for task in (waiting, ending):
            state = await task
            assert state is not None
            assert state.status == "completed"

    hosted(test)


def test_a_commit_elsewhere_is_found_by_looking() -> None:
    async def test(here: EmbeddedHost, there: EmbeddedHost) -> None:
        waiting = asyncio.ensure_future(here.wait_for_end("r", timeout_seconds=SECONDS_MAX))
        await turns()
        await go(there)
        state = await waiting
        assert state is not None
        assert state.status == "completed"

    hosted(test)


def test_a_run_that_moved_before_anybody_waited_is_not_waited_for() -> None:
    async def test(here: EmbeddedHost, there: EmbeddedHost) -> None:
        assert (await here.wait("r", after_seq=0, timeout_seconds=SECONDS_MAX)) is not None
        assert await here.wait("nothing", after_seq=0, timeout_seconds=SECONDS_MAX) is None
        assert await here.wait_for_end("nothing", timeout_seconds=SECONDS_MAX) is None

    hosted(test)


def test_time_runs_out_without_a_trace() -> None:
    async def test(here: EmbeddedHost, there: EmbeddedHost) -> None:
        state = await here.wait("r", after_seq=99, timeout_seconds=0.01)
        assert state is not None
        await here.next_commit(timeout_seconds=0.01)
        assert here._watch._watched == {}
        assert here._watch._for_any == set()

    hosted(test)


def test_many_waiters_share_one_look_and_nobody_looks_when_nobody_waits() -> None:
    looks: list[int] = []

    class Counting(RunStore):
        async def positions(self, run_ids: Sequence[str]) -> dict[str, RunPosition]:
            looks.append(len(run_ids))
            return await super().positions(run_ids)

    async def body(store: RunStore) -> None:
        watch = RunWatch(store=store)
        with watch.entered("a", after_seq=0) as one, watch.entered("a", after_seq=5) as two:
            await asyncio.wait((one, two), timeout=SECONDS_MAX)
            # There is no such run: both may look for themselves.
            assert (one.done(), two.done()) == (True, True)
        assert looks == [1]
        await watch.next_commit(timeout_seconds=3 * limits.FOREIGN_CHANGE_POLL_SECONDS)
        assert looks == [1]

    run_on(Counting(TemporaryDatabase()), body)


def test_a_run_that_is_moved_here_is_looked_at_only_when_it_rests() -> None:
    looks: list[list[str]] = []

    class Listening(RunStore):
        async def positions(self, run_ids: Sequence[str]) -> dict[str, RunPosition]:
            looks.append(list(run_ids))
            return {run_id: RunPosition(seq=1, terminal=False) for run_id in run_ids}

    async def body(store: RunStore) -> None:
        async def looked(count: int) -> None:
            async with asyncio.timeout(SECONDS_MAX):
                while len(looks) < count:
                    await watch.next_commit(timeout_seconds=limits.FOREIGN_CHANGE_POLL_SECONDS / 10)

        watch = RunWatch(store=store)
        with watch.entered("busy", after_seq=9), watch.entered("idle", after_seq=9):
            watch.committed(RunState(run_id="busy", seq=2))
            await looked(1)
            assert looks[0] == ["idle"]
            await looked(2)
            assert looks[1] == ["busy", "idle"]

    run_on(Listening(TemporaryDatabase()), body)

"""Child runs that nobody waits for any more are cancelled, their end is told, and nobody owes anything afterwards."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import Accepted, inputs
from penstock.engine.effects import CancelChild, StartChild
from penstock.engine.pending import pending
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.effects import ChildRuns
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.runs import RunRow
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.opened_database import run_on
from tests.waiting import SECONDS_MAX

ASK: JsonObject = {"id": "ask", "type": "interrupt", "message": "ok?"}
CHILD = native(ASK, END, name="child")


def sub(name: str) -> JsonObject:
    return {"id": name, "type": "subworkflow", "workflow": "child"}


def branches(*names: str) -> list[JsonValue]:
    return [{"name": f"b_{name}", "nodes": [sub(name)]} for name in names]


TWO = native({"id": "both", "type": "parallel", "branches": branches("one", "two")}, END)


@asynccontextmanager
async def at_work(store: RunStore, worker_id: str = "w") -> AsyncIterator[Bench]:
    faults: list[BaseException] = []
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=worker_id)
    driver = Driver(host=host, performer=ScriptedPerformer(), report=lambda where, error: faults.append(error))
    await host.register(build_workflow(CHILD))
    await driver.start()
    try:
        yield Bench(host, ScriptedPerformer())
    finally:
        await driver.stop()
    assert faults == []


async def row_where(bench: Bench, run_id: str, condition: Callable[[RunRow], bool]) -> RunRow:
    """Wait, bounded, until the index says something about a run."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            row = await bench.host.store.row(run_id)
            if row is not None and condition(row):
                return row
            await bench.host.next_commit(timeout_seconds=0.05)


async def cancel(bench: Bench, run_id: str = "r") -> None:
    assert isinstance(await bench.host.send(run_id, inputs.CancelRun(at=bench.now())), Accepted)


def test_an_ended_parent_owes_nothing_once_all_its_children_are_cancelled() -> None:
    async def body(store: RunStore) -> None:
        async with at_work(store) as bench:
            await bench.start(TWO)
            for child in ("r:sub:one", "r:sub:two"):
                await bench.status("waiting_input", child)
            await cancel(bench)
            for child in ("r:sub:one", "r:sub:two"):
                assert (await bench.ended(child)).status == "cancelled"
            row = await row_where(bench, "r", lambda row: not row.has_work)
            assert (row.terminal, row.owner) == (True, None)
            live = await bench.host.live("r")
            assert live is not None
            # The history cannot say so, but nobody asks it.
            assert all(isinstance(effect, CancelChild) for effect in pending(live.workflow, live.state, bench.now()))
            assert bench.host.due(live) == []
        async with at_work(store, "next") as bench:
            assert await store.claim(owner="x", limit=10) == ()
            assert await store.delete_runs(["r", "r:sub:one", "r:sub:two"]) == 3

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_child_that_never_began_is_told_to_be_cancelled() -> None:
    async def body(store: RunStore) -> None:
        quick: JsonObject = {"id": "quick", "type": "set_state", "set": {"a": 1}}
        fast: JsonObject = {"name": "fast", "nodes": [quick]}
        race: JsonObject = {"id": "race", "type": "race", "branches": [*branches("slow"), fast]}
        state: JsonValue = {"type": "object", "properties": {"a": {"type": "integer"}}}
        async with at_work(store) as bench:
            await bench.start(native(race, ASK, END, state=state))
            await bench.until(lambda state: not state.children)
            row = await row_where(bench, "r", lambda row: not row.has_work)
            assert row.status == "waiting_input"
            assert await store.row("r:sub:slow") is None

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_child_that_had_ended_when_its_parent_gave_it_up_is_told_again() -> None:
    async def body(store: RunStore) -> None:
        race: JsonObject = {
            "id": "race",
            "type": "race",
            "branches": [*branches("slow"), {"name": "x", "nodes": [ASK]}],
        }
        # No driver: nothing is performed but what is called here.
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        bench = Bench(host, ScriptedPerformer())
        await host.register(build_workflow(native(END, name="child")))
        children = ChildRuns(host)
        await bench.start(native(race, step("after"), END))
        live = await host.live("r")
        assert live is not None
        [start] = [effect for effect in host.due(live) if isinstance(effect, StartChild)]
        await children.start(live, start)
        assert (await bench.ended("r:sub:slow")).status == "completed"
        await host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer={}))
        [gone] = [effect for effect in host.due(live) if isinstance(effect, CancelChild)]
        await children.cancel(live, gone)
        assert live.state.children == {}

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_child_that_begins_while_its_parent_ends_is_cancelled() -> None:
    async def body(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        bench = Bench(host, ScriptedPerformer())
        await host.register(build_workflow(CHILD))
        children = ChildRuns(host)
        await bench.start(native(sub("only"), END))
        live = await host.live("r")
        assert live is not None
        [start] = [effect for effect in host.due(live) if isinstance(effect, StartChild)]
        await cancel(bench)
        await children.cancel(live, CancelChild(effect_id="x", child_id=start.child_id))
        await children.start(live, start)
        assert (await bench.ended(start.child_id)).status == "cancelled"

    run_on(RunStore(TemporaryDatabase()), body)

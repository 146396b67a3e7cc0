"""A caller is cancelled at every await of every input of a host: a run is as it was, or goes on, never in between."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import fold, inputs
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.runtime.control_plane.functions import ControlPlane
from penstock.runtime.control_plane.hosts import HostControl
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.run_handle import Run
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.embedded import Bench
from tests.conformance.hosts import END, ScriptedPerformer, native, step
from tests.waiting import SECONDS_MAX

AWAITS_MAX = 60  # more than any call has; what needs more does not end

ASK: JsonObject = {"id": "ask", "type": "interrupt", "message": "ok?"}
HEAR: JsonObject = {"id": "hear", "type": "wait", "signal": "go"}
ASKS = native(ASK, step("pay"), END, name="asks")
HEARS = native(HEAR, step("pay"), END, name="hears")
PAYS = native(step("pay"), step("tell"), END, name="pays")
AGAIN = native(
    ASK,
    {"id": "often", "type": "switch", "cases": [{"when": ".input.n == 1", "next": "done"}], "default": "again"},
    {"id": "again", "type": "continue_as_new", "input": {"n": 1}},
    END,
    name="again",
)


class Cancelled:
    """Drives a call, and cancels the task that waits for it at one of its awaits.

    It is cancelled while it waits, or (`late`) when what it waits for is there and it has not gone on yet.
    """

    def __init__(self, call: Awaitable[Any], at: int, *, late: bool) -> None:
        self._call = call
        self._at = at
        self._late = late
        self.awaits = 0

    def __await__(self) -> Generator[Any, None, Any]:
        inner = self._call.__await__()
        thrown: BaseException | None = None
        while True:
            try:
                waits_for = next(inner) if thrown is None else inner.throw(thrown)
            except StopIteration as done:
                return done.value
            self.awaits += 1
            if self.awaits == self._at:
                self._cancel_soon(waits_for)
            try:
                yield waits_for
                thrown = None
            except BaseException as error:
                thrown = error

    def _cancel_soon(self, waits_for: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and waits_for is not None:
            # Added before the task's own callback, so that it comes before it.
            waits_for.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


@dataclass
class Shop:
    """A host at work with its driver."""

    host: EmbeddedHost
    bench: Bench
    driver: Driver
    number: int = 0

    async def started(self, document: JsonObject, status: str, mode: str = "") -> str:
        """A new run that waits for somebody."""
        self.number += 1
        run_id = f"r{self.number}"
        await self.bench.start(document, run_id=run_id, mode=mode)
        await self.bench.status(status, run_id)
        return run_id

    def run(self, run_id: str) -> Run:
        return Run(run_id, self.host, lambda: f"made-{self.number}")

    def control(self) -> ControlPlane:
        return ControlPlane(host=HostControl(self.host), new_id=lambda: f"r{self.number}")


@dataclass(frozen=True)
class Call:
    """A call to be cancelled, the run that it is about, and how that run stands if nothing came of it."""

    work: Coroutine[Any, Any, Any]
    run_id: str
    before: str | None = None
    then: Callable[[], Coroutine[Any, Any, Any]] | None = None


Case = Callable[[Shop], Coroutine[Any, Any, Call]]


async def starting(shop: Shop) -> Call:
    workflow = build_workflow(PAYS)
    await shop.host.register(workflow)
    shop.number += 1
    given = inputs.StartRun(at=shop.bench.now(), run_id=f"r{shop.number}", input={})
    return Call(shop.host.start(given, workflow_hash=workflow.hash), given.run_id)


async def answering(shop: Shop) -> Call:
    run_id = await shop.started(ASKS, "waiting_input")
    run = shop.run(run_id)
    return Call(run.answer({}), run_id, "waiting_input", lambda: run.answer({}))


async def signalling(shop: Shop) -> Call:
    run_id = await shop.started(HEARS, "waiting_signal")
    run = shop.run(run_id)
    return Call(run.signal("go"), run_id, "waiting_signal", lambda: run.signal("go"))


async def updating(shop: Shop) -> Call:
    run_id = await shop.started(HEARS, "waiting_signal")
    run = shop.run(run_id)
    return Call(run.update("go", signal_id="s"), run_id, "waiting_signal", lambda: run.signal("go"))


async def submitting(shop: Shop) -> Call:
    """What the caller hands in makes a child run due, which the host starts by itself."""
    await shop.host.register(build_workflow(native(END, name="child")))
    calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "child", "input": {}}
    run_id = await shop.started(native(step("pay"), calls, END, name="mediated"), "waiting_activity", "host_mediated")
    run = shop.run(run_id)
    return Call(run.submit("pay", {}), run_id, "waiting_activity", lambda: run.submit("pay", {}))


async def cancelling(shop: Shop) -> Call:
    run_id = await shop.started(ASKS, "waiting_input")
    run = shop.run(run_id)
    return Call(run.cancel(), run_id, "waiting_input", run.cancel)


async def resuming(shop: Shop) -> Call:
    run_id = await shop.started(ASKS, "waiting_input")
    run = shop.run(run_id)
    await run.pause()
    await run.answer({})
    return Call(run.resume(), run_id, "paused", run.resume)


async def forking(shop: Shop) -> Call:
    original = await shop.started(PAYS, "completed")
    shop.number += 1
    run_id = f"r{shop.number}"
    return Call(shop.run(original).fork(at_seq=2, run_id=run_id), run_id)


async def continuing(shop: Shop) -> Call:
    """What is sent to the first run of a chain reaches the last one, which is started for it if need be."""
    run_id = await shop.started(AGAIN, "waiting_input")
    await shop.run(run_id).answer({})
    later = f"{run_id}~2"
    await shop.bench.status("waiting_input", later)
    cancel = shop.run(run_id).cancel
    return Call(cancel(), later, "waiting_input", cancel)


async def controlled_start(shop: Shop) -> Call:
    shop.number += 1
    run_id = f"r{shop.number}"
    arguments: JsonObject = {"definition": PAYS, "execution_id": run_id, "input": {}}
    return Call(shop.control().workflow_start(arguments), run_id)


async def controlled_answer(shop: Shop) -> Call:
    run_id = await shop.started(ASKS, "waiting_input")
    arguments: JsonObject = {"execution_id": run_id, "resume_payload": {}}
    resume = shop.control().workflow_resume
    return Call(resume(arguments), run_id, "waiting_input", lambda: resume(arguments))


CASES: list[Case] = [
    starting,
    answering,
    signalling,
    updating,
    submitting,
    cancelling,
    resuming,
    forking,
    continuing,
    controlled_start,
    controlled_answer,
]


@asynccontextmanager
async def shop_on(kind: str, folder: Path) -> AsyncIterator[Shop]:
    store: RunStore = (
        RunStore(TemporaryDatabase())
        if kind == "memory"
        else RunStore(SqliteDatabase(folder / "penstock.db", synchronous="OFF"))
    )
    await store.open()
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="here")
    performer = ScriptedPerformer()
    # What looks after abandoned runs would hide them from this test.
    driver = Driver(host=host, performer=performer)
    await driver.start()
    try:
        yield Shop(host, Bench(host, performer), driver)
    finally:
        await driver.stop()
        await store.close()


async def whole(shop: Shop, run_id: str) -> RunState | None:
    """The state of a run once everything that its caller left is stored."""
    # Whatever the caller left to be stored is stored before this is.
    await shop.host.store.set_work("nobody", has_work=False, owner=None, expected_epoch=0)
    state = await shop.host.read(run_id)
    stored = await shop.host.store.load(run_id)
    if stored is None:
        assert state is None
        return None
    assert state is not None
    assert state.seq <= fold(stored.records).seq
    return state


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "late"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_caller_that_is_cancelled_anywhere_leaves_no_run_in_between(
    case: Case, kind: str, late: bool, tmp_path: Path
) -> None:
    async def body() -> None:
        async with shop_on(kind, tmp_path) as shop, asyncio.timeout(SECONDS_MAX):
            for at in range(1, AWAITS_MAX):
                call = await case(shop)
                driven = Cancelled(call.work, at, late=late)
                with suppress(asyncio.CancelledError):
                    await asyncio.ensure_future(_awaited(driven))
                await _ends(shop, call)
                if driven.awaits < at:
                    return
            raise AssertionError(f"more than {AWAITS_MAX} awaits")

    asyncio.run(body())


async def _awaited(driven: Cancelled) -> None:
    await driven


async def _ends(shop: Shop, call: Call) -> None:
    state = await whole(shop, call.run_id)
    if state is None:
        assert call.before is None
        return
    if run_status(state) == call.before and call.then is not None:
        await call.then()
    await shop.bench.ended(call.run_id)

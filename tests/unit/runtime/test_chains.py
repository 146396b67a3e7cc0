"""Runs that continue as new ones: what the runtime does around them, also when processes come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock, RunFailed
from penstock.base.clock import ManualClock
from penstock.base.errors import Rejected, Unavailable
from penstock.base.ids import in_run_tree
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import Accepted, Refused, fold, inputs
from penstock.runtime.chains import CHAIN_LABEL, latest_in_chain
from penstock.runtime.control_plane.functions import CallResult, ControlPlane
from penstock.runtime.control_plane.hosts import HostControl, MemoryControl
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.host.memory import MemoryHost
from penstock.runtime.retention import Retention
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.chains import WAIT, counting
from tests.conformance.embedded import Bench
from tests.conformance.hosts import ScriptedPerformer, native
from tests.conformance.hosts import step as step_node
from tests.conformance.stores import AT, listed, on_every_store, start
from tests.failing_database import FailingDatabase
from tests.opened_database import run_on
from tests.waiting import SECONDS_MAX

ENTITY = """\
penstock: v1
name: account
state: {type: object, properties: {total: {type: integer}}}
input: {type: object, properties: {total: {type: integer, default: 0}}}
nodes:
  - {id: begin, type: set_state, set: {total: "${ .input.total }"}}
  - {id: pay, type: wait, signal: pay}
  - {id: book, type: set_state, set: {total: "${ .state.total + .pay.amount }"}}
  - id: full
    type: switch
    cases:
      - {when: ".state.total > 100", next: broke}
      - {when: ".state.total == 100", next: done}
    default: again
  - {id: again, type: continue_as_new, input: {total: "${ .state.total }"}}
  - {id: broke, type: fail, code: TOO_MUCH}
  - {id: done, type: end, output: "${ .state.total }"}
"""


def opened(folder: Path, body: Callable[[Penstock], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(SECONDS_MAX), Penstock.open(folder / "penstock.db") as penstock:
            await penstock.register(ENTITY)
            await body(penstock)

    asyncio.run(run())


@asynccontextmanager
async def at_work(store: RunStore, worker_id: str = "w") -> AsyncIterator[Bench]:
    faults: list[BaseException] = []
    host = EmbeddedHost(store=store, clock=SystemClock(), worker_id=worker_id)
    driver = Driver(host=host, performer=ScriptedPerformer(), report=lambda where, error: faults.append(error))
    await driver.start()
    try:
        yield Bench(host, ScriptedPerformer())
    finally:
        await driver.stop()
    assert faults == []


# --- the Python object ---------------------------------------------------------------------------


def test_a_run_is_waited_for_signalled_and_asked_by_the_id_of_the_first(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        run = await penstock.start("account", run_id="account-1")
        for amount in (10, 20, 30):
            await run.signal("pay", {"amount": amount})
        assert await run.update("pay", {"amount": 15}, query=".state.total", timeout_seconds=240) == 75
        with pytest.raises(Unavailable, match="account-1~5 is still waiting_signal"):
            await run.result(timeout_seconds=0.05)
        assert (await run.newest()).id == "account-1~5"
        assert (await run.state()).continued_as == "account-1~2"
        again = await penstock.signal_with_start("account", "account-1", "pay", {"amount": 25})
        assert await again.result(timeout_seconds=240) == 100
        assert await run.result(timeout_seconds=240) == 100
        assert await penstock.run("account-1~3").result(timeout_seconds=240) == 100

    opened(tmp_path, body)


def test_a_failure_names_the_run_that_failed(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        run = await penstock.start("account", run_id="account-1")
        await run.signal("pay", {"amount": 60})
        await run.signal("pay", {"amount": 60})
        with pytest.raises(RunFailed, match="run account-1~2 failed") as failed:
            await run.result(timeout_seconds=240)
        assert failed.value.code == "TOO_MUCH"
        assert failed.value.details == {"run_id": "account-1~2", "node_id": "broke"}

    opened(tmp_path, body)


def test_a_fork_and_an_id_of_a_later_run_keep_chains_apart(tmp_path: Path) -> None:
    async def body(penstock: Penstock) -> None:
        run = await penstock.start("account", run_id="account-1", labels={"team": "red"})
        await run.signal("pay", {"amount": 60})
        later = await run.newest()
        copy = await later.fork(at_seq=1, run_id="copy")
        row = await penstock.store.row("copy")
        assert row is not None
        assert row.labels == {"team": "red"}
        await copy.signal("pay", {"amount": 10})
        assert (await copy.newest()).id == "copy~2"
        assert (await run.newest()).id == "account-1~2"
        with pytest.raises(Rejected, match="ends in ~ and a number"):
            await penstock.start("account", run_id="account-1~9")
        with pytest.raises(Rejected, match="ends in ~ and a number"):
            await later.fork(at_seq=1, run_id="copy~3")

    opened(tmp_path, body)


# --- processes that come and go ------------------------------------------------------------------


def continued_without_a_driver(store: RunStore) -> Coroutine[Any, Any, EmbeddedHost]:
    """A run that ended with `continue_as_new` in a process that died before it started the next one."""

    async def run() -> EmbeddedHost:
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="gone")
        workflow = build_workflow(counting(step_node("a"), WAIT, last=2))
        await host.register(workflow)
        given = inputs.StartRun(at=host.clock.now_ms(), run_id="r", input={})
        await host.start(given, workflow_hash=workflow.hash, labels={"team": "red"})
        await host.send("r", inputs.SendSignal(at=given.at, name="go", signal_id="s1"))
        await host.send("r", inputs.SendSignal(at=given.at, name="go", signal_id="s2"))
        await host.send("r", inputs.CompleteActivity(at=given.at, node_id="a"))
        row = await store.row("r")
        assert row is not None
        assert (row.terminal, row.has_work, await store.row("r~2")) == (True, True, None)
        return host

    return run()


@on_every_store
async def test_a_next_run_that_nobody_started_is_started_by_the_next_process(store: RunStore) -> None:
    await continued_without_a_driver(store)
    async with at_work(store) as bench:
        last = await bench.host.wait_for_end("r", timeout_seconds=SECONDS_MAX)
        assert last is not None
        assert (last.run_id, last.status) == ("r~2", "completed")
        async with asyncio.timeout(SECONDS_MAX):
            while (row := await store.row("r")) is not None and row.has_work:
                await bench.host.next_commit(timeout_seconds=0.05)
    assert await store.delete_runs(["r"]) == 0
    assert await store.delete_runs(["r~2", "r"]) == 2


@on_every_store
async def test_who_sends_a_signal_does_not_wait_for_the_next_run(store: RunStore) -> None:
    host = await continued_without_a_driver(store)
    sender = EmbeddedHost(store=store, clock=host.clock, worker_id="sender", performs=False)
    decision = await sender.send("r", inputs.SendSignal(at=0, name="other", payload=3))
    assert isinstance(decision, Accepted)
    assert (decision.state.run_id, [signal.payload for signal in decision.state.signals]) == ("r~2", [None, 3])
    row = await store.row("r~2")
    assert row is not None
    assert (row.owner, row.has_work, row.labels) == (None, True, {"team": "red", CHAIN_LABEL: "r"})


@on_every_store
async def test_a_chain_is_continued_once_whoever_does_it(store: RunStore) -> None:
    await continued_without_a_driver(store)
    hosts = [EmbeddedHost(store=store, clock=SystemClock(), worker_id=f"w{number}") for number in range(5)]
    assert set(await asyncio.gather(*(host.newest("r") for host in hosts))) == {"r~2"}
    records = await store.history("r~2")
    assert [record.name for record in records][:1] == ["ExecutionStarted"]
    assert fold(records).generation == 2


def test_a_store_that_cannot_write_for_a_while_loses_no_chain() -> None:
    appends = 0

    def before_append() -> None:
        nonlocal appends
        appends += 1
        if appends in (3, 4, 5):  # the first two are those of the first run
            raise Unavailable("STORE_FULL", "the disk is full")

    async def run(store: RunStore) -> None:
        faults: list[BaseException] = []
        host = EmbeddedHost(store=store, clock=SystemClock(), worker_id="w")
        driver = Driver(host=host, performer=ScriptedPerformer(), report=lambda where, error: faults.append(error))
        await driver.start()
        try:
            await Bench(host, ScriptedPerformer()).start(counting(step_node("a"), last=2))
            last = await host.wait_for_end("r", timeout_seconds=SECONDS_MAX)
        finally:
            await driver.stop()
        assert last is not None
        assert (last.run_id, last.status) == ("r~2", "completed")
        assert [type(error) for error in faults] == [Unavailable] * 3

    run_on(RunStore(FailingDatabase(before_append)), run)


def test_waiting_for_the_end_of_a_chain_that_stands_still_ends_with_the_time() -> None:
    async def run(store: RunStore) -> None:
        host = await continued_without_a_driver(store)
        state = await host.wait_for_end("r", timeout_seconds=0.3)
        assert state is not None
        assert (state.run_id, state.continued_as) == ("r", "r~2")
        assert await host.wait_for_end("nobody", timeout_seconds=0.1) is None

    run_on(RunStore(TemporaryDatabase()), run)


# --- what is kept --------------------------------------------------------------------------------


@on_every_store
async def test_the_first_run_of_a_chain_is_kept_as_long_as_others_are(store: RunStore) -> None:
    ended: dict[str, Any] = {"status": "completed", "terminal": True, "updated_at": AT}
    for run_id in ("r", "r~2", "r~3", "r~x", "r~02", "rr", "r~x~"):
        await store.append(start(run_id, **ended, labels={CHAIN_LABEL: "r"} if "~" in run_id else {}))
    await store.append(start("r~10", labels={CHAIN_LABEL: "r"}))
    await store.append(start("r~10:sub:child", parent_run_id="r~10"))
    retention = Retention(store=store, clock=ManualClock(AT + 100_000), keep_ms=0, pause_seconds=0)
    assert await retention.sweep() == 6
    assert sorted(await listed(store)) == ["r", "r~10", "r~10:sub:child"]
    assert await store.delete_runs(["r"]) == 0
    assert await latest_in_chain(store, "r") == "r~10"
    assert await latest_in_chain(store, "r~2") == "r~10"
    assert await latest_in_chain(store, "r~10") is None
    assert await latest_in_chain(store, "rr") is None


@on_every_store
async def test_a_chain_that_has_ended_is_forgotten_with_its_first_run_last(store: RunStore) -> None:
    for number, run_id in enumerate(("r", "r~2", "r~3")):
        ended: dict[str, Any] = {"status": "completed", "terminal": True, "updated_at": AT + number * 1_000}
        await store.append(start(run_id, **ended, labels={CHAIN_LABEL: "r"} if number else {}))
    clock = ManualClock(AT + 1_500)
    assert await Retention(store=store, clock=clock, keep_ms=0, pause_seconds=0).sweep() == 1
    assert sorted(await listed(store)) == ["r", "r~3"]
    clock.advance(10_000)
    assert await Retention(store=store, clock=clock, keep_ms=0, pause_seconds=0).sweep() == 2


@on_every_store
async def test_a_label_that_somebody_made_up_does_not_lead_astray(store: RunStore) -> None:
    await store.append(start("r", status="completed", terminal=True))
    await store.append(start("r~2", labels={CHAIN_LABEL: "r"}))
    for number in range(5):
        await store.append(start(f"fake {number}", labels={CHAIN_LABEL: "r"}, created_at=AT + 10))
    assert await latest_in_chain(store, "r") == "r~2"


@pytest.mark.parametrize(
    ("run_id", "root_run_id", "belongs"),
    [
        ("r", None, True),
        ("r", "r", True),
        ("r:sub:x", "r", True),
        ("r~2", "r", True),
        ("r~2:sub:x", "r", True),
        ("r", "r~2", True),
        ("r~3", "r~2", True),
        ("r~2x", "r", True),
        ("rr", "r", False),
        ("r~x", "r", False),
        ("r~", "r", False),
        ("q", "r", False),
        ("r", "r:sub:x", False),
        ("r:sub:x~2", "r:sub:x", True),
    ],
)
def test_a_run_tree_is_a_chain_with_its_child_runs(run_id: str, root_run_id: str | None, belongs: bool) -> None:
    assert in_run_tree(run_id, root_run_id) is belongs


@on_every_store
async def test_every_store_finds_the_work_of_a_family_by_the_same_rule(store: RunStore) -> None:
    names = ["r", "r~2", "r~10", "r~x", "rr", "r:sub:x", "r~2:sub:x", "r:sub:x~2", "q"]
    for run_id in names:
        await store.append(start(run_id, has_work=True))
    for root_run_id in ("r", "r~2", "r:sub:x"):
        found = await store.claim(owner=f"owner of {root_run_id}", limit=100, root_run_id=root_run_id)
        wanted = [name for name in names if in_run_tree(name, root_run_id)]
        assert set(found) <= set(wanted)
        assert found or root_run_id != "r"
    claimed = {name for name in names if (row := await store.row(name)) is not None and row.owner is not None}
    assert claimed == {name for name in names if in_run_tree(name, "r")}


# --- other doors ---------------------------------------------------------------------------------


def test_the_control_plane_goes_along_with_a_chain() -> None:
    async def run() -> None:
        now = 1_760_000_000_000
        plane = ControlPlane(host=MemoryControl(MemoryHost(clock=lambda: now)), new_id=lambda: "minted")

        async def call(tool: str, **arguments: JsonValue) -> JsonObject:
            reply = await plane.call(f"workflow_{tool}", {"execution_id": "r", **arguments})
            assert isinstance(reply, CallResult), reply
            return reply.body

        await call("start", definition=counting(WAIT), input={})
        body = await call("signal", signal_name="go")
        assert (body["execution_id"], body["status"]) == ("r~2", "awaiting_signal")
        status = await call("status")
        assert (status["phase"], status["continued_as"]) == ("completed", "r~2")
        body = await call("signal", signal_name="go")
        assert body["execution_id"] == "r~3"
        body = await call("signal", signal_name="go")
        assert (body["status"], body["result"]) == ("completed", {"n": 3, "seen": ["r", "r~2"]})

    asyncio.run(run())


def test_the_control_plane_of_a_store_goes_along_with_a_chain_and_its_parent() -> None:
    async def run(store: RunStore) -> None:
        async with at_work(store) as bench:
            plane = ControlPlane(host=HostControl(bench.host), new_id=lambda: "minted")
            await bench.host.register(build_workflow(counting(step_node("a"), WAIT)))
            sub: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "counting", "input": {}}
            document = native(sub, {"id": "e", "type": "end", "output": "${ .sub.n }"})
            reply = await plane.call("workflow_start", {"execution_id": "r", "definition": document, "input": {}})
            assert isinstance(reply, CallResult), reply
            for _ in range(3):
                reply = await plane.call("workflow_signal", {"execution_id": "r:sub:sub", "signal_name": "go"})
                assert isinstance(reply, CallResult), reply
            state = await bench.host.wait_for_end("r", timeout_seconds=SECONDS_MAX)
            assert state is not None
            assert state.result == 3

    run_on(RunStore(TemporaryDatabase()), run)


def test_a_late_answer_is_refused_with_the_id_of_the_next_run() -> None:
    async def run(store: RunStore) -> None:
        host = await continued_without_a_driver(store)
        refused = await host.send("r", inputs.CompleteActivity(at=0, node_id="a"))
        assert isinstance(refused, Refused)
        assert (refused.code, refused.details) == ("ACTIVITY_SUBMIT_NOT_AWAITING", {"continued_as": "r~2"})

    run_on(RunStore(TemporaryDatabase()), run)

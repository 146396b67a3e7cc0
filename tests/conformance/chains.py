"""What every host must do with runs that continue as new ones: cases for the suite of `hosts`."""

from __future__ import annotations

import asyncio

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import Accepted, Refused, Replayed, fold, inputs, replay
from penstock.engine.state import RunState
from penstock.runtime.activities.performing import ActivityDone
from penstock.runtime.chains import CHAIN_LABEL
from tests.conformance.hosts import Bench, Case, native, step
from tests.waiting import SECONDS_MAX

__all__ = ["CHAIN_CASES"]


def counting(*before: JsonObject, last: int = 3, **again: JsonValue) -> JsonObject:
    """Does something and continues as a new run, until the number in its input is the last."""
    return native(
        *before,
        {
            "id": "choose",
            "type": "switch",
            "cases": [{"when": f"(.input.n // 1) >= {last}", "next": "done"}],
            "default": "again",
        },
        {
            "id": "again",
            "type": "continue_as_new",
            "input": {"n": "${ (.input.n // 1) + 1 }", "seen": "${ (.input.seen // []) + [.run.id] }"},
            **again,
        },
        {"id": "done", "type": "end", "output": {"n": "${ .input.n // 1 }", "seen": "${ .input.seen }"}},
        name="counting",
    )


WAIT: JsonObject = {"id": "w", "type": "wait", "signal": "go"}


async def chain_ended(bench: Bench, run_id: str = "r") -> RunState:
    """The last run of a chain when it has ended."""
    state = await bench.host.wait_for_end(run_id, timeout_seconds=SECONDS_MAX)
    assert state is not None
    assert state.terminal
    assert state.continuation is None
    return state


async def a_run_continues_until_it_ends(bench: Bench) -> None:
    document = counting(step("a"))
    await bench.start(document)
    last = await chain_ended(bench)
    assert (last.run_id, last.result) == ("r~3", {"n": 3, "seen": ["r", "r~2"]})
    assert (last.generation, last.continued_from) == (3, "r~2")
    first = await bench.ended()
    assert (first.status, first.continued_as, first.result) == ("completed", "r~2", None)
    assert bench.performer.calls == ["r/a/1/1", "r~2/a/1/1", "r~3/a/1/1"]
    for run_id in ("r", "r~2", "r~3"):
        records = await bench.host.history(run_id)
        outcome = replay(build_workflow(document), records)
        assert isinstance(outcome, Replayed)
        assert outcome.state == fold(records)
        assert outcome.missing == ()


async def labels_and_parent_are_kept(bench: Bench) -> None:
    workflow = build_workflow(counting(step("a")))
    await bench.host.register(workflow)
    start = inputs.StartRun(at=bench.now(), run_id="r", input={})
    await bench.host.start(start, workflow_hash=workflow.hash, labels={"team": "blue"})
    await chain_ended(bench)
    row = await bench.host.row("r~3")
    assert row is not None
    assert row.labels == {"team": "blue", CHAIN_LABEL: "r"}


async def signals_nobody_took_are_carried_over(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    await bench.start(counting(step("a"), WAIT))
    for number in range(3):
        signal = inputs.SendSignal(at=bench.now(), name="go", payload={"n": number}, signal_id=f"s{number}")
        assert isinstance(await bench.host.send("r", signal), Accepted)
    bench.performer.gates["a"].set()
    last = await chain_ended(bench)
    assert (last.run_id, last.signals) == ("r~3", ())
    taken = []
    for run_id in ("r", "r~2", "r~3"):
        records = await bench.host.history(run_id)
        taken += [record.payload["payload"] for record in records if record.name == "SignalReceived"]
    assert taken == [{"n": 0}, {"n": 1}, {"n": 2}]


async def a_signal_reaches_the_last_run_once(bench: Bench) -> None:
    await bench.start(counting(WAIT))
    first = inputs.SendSignal(at=bench.now(), name="go", signal_id="one")
    assert isinstance(await bench.host.send("r", first), Accepted)
    await bench.status("waiting_signal", "r~2")
    assert isinstance(await bench.host.send("r", first), Accepted)  # sent again by somebody who heard nothing
    assert (await bench.status("waiting_signal", "r~2")).signals == ()
    for number in range(2):
        signal = inputs.SendSignal(at=bench.now(), name="go", signal_id=f"more {number}")
        assert isinstance(await bench.host.send("r", signal), Accepted)
    assert (await chain_ended(bench)).run_id == "r~3"


async def cancel_reaches_the_last_run(bench: Bench) -> None:
    await bench.start(counting(WAIT))
    await bench.host.send("r", inputs.SendSignal(at=bench.now(), name="go"))
    await bench.status("waiting_signal", "r~2")
    assert isinstance(await bench.host.send("r", inputs.PauseRun(at=bench.now())), Accepted)
    await bench.status("paused", "r~2")
    assert isinstance(await bench.host.send("r", inputs.ResumeRun(at=bench.now())), Accepted)
    assert isinstance(await bench.host.send("r", inputs.CancelRun(at=bench.now(), reason="enough")), Accepted)
    last = await chain_ended(bench)
    assert (last.run_id, last.status, last.cancel_reason) == ("r~2", "cancelled", "enough")
    refused = await bench.host.send("r", inputs.CancelRun(at=bench.now()))
    assert isinstance(refused, Refused)
    assert refused.code == "CANCEL_NOT_ALLOWED"


async def answers_are_not_handed_on(bench: Bench) -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "?", "answer": {"type": "object"}}
    await bench.start(counting(ask))
    await bench.status("waiting_input")
    answer = inputs.AnswerInterrupt(at=bench.now(), answer={}, node_id="ask", visit=1)
    assert isinstance(await bench.host.send("r", answer), Accepted)
    await bench.status("waiting_input", "r~2")
    late = await bench.host.send("r", answer)
    assert isinstance(late, Refused)
    assert (late.code, late.details) == ("INVALID_RESUME_PAYLOAD", {"continued_as": "r~2"})


async def a_parent_waits_for_the_last_run(bench: Bench) -> None:
    await bench.host.register(build_workflow(counting(step("a"), WAIT)))
    calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "counting", "input": {}}
    await bench.start(native(calls, {"id": "e", "type": "end", "output": "${ .sub.n }"}))
    for run_id in ("r:sub:sub", "r:sub:sub~2", "r:sub:sub~3"):
        waiting = await bench.status("waiting_signal", run_id)
        assert (waiting.parent_run_id, waiting.depth) == ("r", 1)
        await bench.host.send("r:sub:sub", inputs.SendSignal(at=bench.now(), name="go"))
    assert (await bench.ended()).result == 3


async def cancel_of_a_parent_reaches_the_last_run(bench: Bench) -> None:
    await bench.host.register(build_workflow(counting(WAIT)))
    calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "counting", "input": {}}
    await bench.start(native(calls, {"id": "e", "type": "end"}))
    await bench.status("waiting_signal", "r:sub:sub")
    await bench.host.send("r:sub:sub", inputs.SendSignal(at=bench.now(), name="go"))
    await bench.status("waiting_signal", "r:sub:sub~2")
    await bench.host.send("r", inputs.CancelRun(at=bench.now()))
    assert (await bench.ended()).status == "cancelled"
    assert (await bench.ended("r:sub:sub~2")).status == "cancelled"


async def the_definition_is_pinned_or_the_newest(bench: Bench) -> None:
    for version, result in (("pinned", {"n": 2, "seen": [version_run("pinned")]}), ("newest", "new")):
        run_id = version_run(version)
        await bench.start(counting(WAIT, last=2, version=version), run_id=run_id)
        await bench.status("waiting_signal", run_id)
        await bench.host.register(build_workflow(native({"id": "e", "type": "end", "output": "new"}, name="counting")))
        for _ in range(1 if version == "newest" else 2):
            await bench.host.send(run_id, inputs.SendSignal(at=bench.now(), name="go"))
        assert (await chain_ended(bench, run_id)).result == result


def version_run(version: str) -> str:
    return f"run-{version}"


async def a_chain_ends_where_the_newest_definition_refuses_its_input(bench: Bench) -> None:
    await bench.start(counting(WAIT, version="newest"))
    picky = native({"id": "e", "type": "end"}, name="counting", input={"type": "object", "required": ["name"]})
    await bench.host.register(build_workflow(picky))
    await bench.host.send("r", inputs.SendSignal(at=bench.now(), name="go"))
    last = await chain_ended(bench)
    assert last.failure is not None
    assert (last.run_id, last.status, last.failure.code) == ("r~2", "failed", "VALIDATION_ERROR")


async def an_endless_chain_ends(bench: Bench) -> None:
    await bench.start(counting(last=100_000))
    last = await chain_ended(bench)
    assert last.failure is not None
    assert (last.generation, last.failure.code) == (101, "CONTINUE_WITHOUT_WAIT")


async def the_time_that_the_starter_gave_is_for_the_chain(bench: Bench) -> None:
    workflow = build_workflow(counting(WAIT))
    await bench.host.register(workflow)
    start = inputs.StartRun(at=bench.now(), run_id="r", input={}, timeout_ms=300)
    await bench.host.start(start, workflow_hash=workflow.hash)
    await bench.host.send("r", inputs.SendSignal(at=bench.now(), name="go"))
    last = await chain_ended(bench)
    assert last.failure is not None
    assert (last.run_id, last.failure.code) == ("r~2", "RUN_TIMEOUT")
    assert last.updated_at - start.at >= 300


async def a_second_process_finds_the_chain(bench: Bench) -> None:
    bench.performer.script = {"a": (ActivityDone({}),)}
    await bench.start(counting(step("a")))
    await chain_ended(bench)
    assert await bench.host.newest("r") == "r~3"
    assert await bench.host.newest("r~2") == "r~3"
    assert await bench.host.newest("nobody") == "nobody"


CHAIN_CASES: tuple[Case, ...] = (
    a_run_continues_until_it_ends,
    labels_and_parent_are_kept,
    signals_nobody_took_are_carried_over,
    a_signal_reaches_the_last_run_once,
    cancel_reaches_the_last_run,
    answers_are_not_handed_on,
    a_parent_waits_for_the_last_run,
    cancel_of_a_parent_reaches_the_last_run,
    the_definition_is_pinned_or_the_newest,
    a_chain_ends_where_the_newest_definition_refuses_its_input,
    an_endless_chain_ends,
    the_time_that_the_starter_gave_is_for_the_chain,
    a_second_process_finds_the_chain,
)

"""What every host must do: one suite of cases, each given a host that is ready to work.

A host that keeps the four promises (one transition at a time, effects at least once, durable timers, read and wait)
passes all of it. The cases know nothing but the port; `test_hosts` runs them on every host, over every store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import Accepted, Refused, Replayed, fold, inputs, replay, run_status
from penstock.engine.fork import fork
from penstock.engine.state import RunState
from penstock.engine.walk.questions import open_questions
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
)
from penstock.runtime.ports.host import RunHost
from penstock.runtime.tables.definitions import Definitions
from tests.waiting import SECONDS_MAX, until_found

__all__ = ["CASES", "END", "Bench", "Case", "HostBench", "ScriptedPerformer", "native", "step"]


@dataclass(slots=True)
class ScriptedPerformer:
    """Performs by node id: a value, outcomes one per attempt and answered question (a tuple), or nothing for `{}`."""

    script: dict[str, JsonValue | tuple[ActivityOutcome, ...]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    heard: list[JsonValue] = field(default_factory=list)  # answers that came back with what the performer left
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)  # whose work it was, and its idempotency key

    _begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def called(self, effect_id: str) -> None:
        """Wait, bounded, until an activity has begun."""
        async with asyncio.timeout(SECONDS_MAX):
            while effect_id not in self.calls:
                self._begun.clear()
                await self._begun.wait()

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Answer from the script."""
        node_id = call.activity.node_id
        self.calls.append(call.activity.effect_id)
        self._begun.set()
        self.keys.append(f"{call.tenant}: {call.activity.idempotency_key}")
        if call.activity.round:
            self.heard.append({"resume": call.activity.resume, "answer": call.activity.answer})
        if node_id in self.gates:
            await self.gates[node_id].wait()
        planned = self.script.get(node_id, {})
        if isinstance(planned, tuple):
            return planned[min(call.activity.attempt + call.activity.round, len(planned)) - 1]
        return ActivityDone(planned)


HostT = TypeVar("HostT", bound=RunHost)


@dataclass(slots=True)
class HostBench(Generic[HostT]):
    """A host at work, its performer, and short words for what the cases do."""

    host: HostT
    performer: ScriptedPerformer

    async def start(self, document: JsonObject, given: JsonValue = None, *, run_id: str = "r", mode: str = "") -> None:
        """Register and start; must be accepted."""
        workflow = build_workflow(document)
        await self.host.register(workflow)
        start = inputs.StartRun(
            at=self.now(), run_id=run_id, input={} if given is None else given, mode=mode or "in_process"
        )
        decision = await self.host.start(start, workflow_hash=workflow.hash)
        assert isinstance(decision, Accepted), decision

    def now(self) -> int:
        """The host's time."""
        return self.host.clock.now_ms()

    async def until(self, condition: Callable[[RunState], bool], run_id: str = "r") -> RunState:
        """Wait, bounded, until a run is as wanted."""
        async with asyncio.timeout(SECONDS_MAX):
            state = await self.host.read(run_id)
            while state is None or not condition(state):
                if state is None:  # not started yet
                    state = await until_found(lambda: self.host.read(run_id))
                else:
                    state = await self.host.wait(run_id, after_seq=state.seq, timeout_seconds=SECONDS_MAX)
            return state

    async def ended(self, run_id: str = "r") -> RunState:
        """Wait for the end of a run."""
        return await self.until(lambda state: state.terminal, run_id)

    async def status(self, wanted: str, run_id: str = "r") -> RunState:
        """Wait for a status."""
        return await self.until(lambda state: run_status(state) == wanted, run_id)


@dataclass(slots=True)
class Bench(HostBench[RunHost]):
    """Any host at work; the cases know nothing of it but the port."""

    definitions: Definitions
    again: Callable[[], Awaitable[RunHost]]

    async def restart(self) -> None:
        """End the host as a process ends, and begin another one on the same store."""
        self.host = await self.again()


def native(*nodes: JsonObject, name: str = "case", **top: JsonValue) -> JsonObject:
    """A native document of some nodes."""
    return {"penstock": "v1", "name": name, "nodes": list(nodes), **top}


def step(node_id: str, **more: JsonValue) -> JsonObject:
    """A step."""
    return {"id": node_id, "type": "step", "handler": node_id, **more}


END: JsonObject = {"id": "done", "type": "end", "output": "${ . | del(.run) }"}


async def linear(bench: Bench) -> None:
    bench.performer.script = {"a": {"n": 1}, "b": {"n": 2}}
    await bench.start(native(step("a"), {**step("b"), "with": {"n": "${ .a.n }"}}, END))
    state = await bench.ended()
    assert state.status == "completed"
    assert isinstance(state.result, dict)
    assert state.result["b"] == {"n": 2}


async def switch(bench: Bench) -> None:
    cases: JsonValue = [{"when": ".input.n > 1", "next": "big"}]
    document = native(
        {"id": "choose", "type": "switch", "cases": cases, "default": "small"},
        {"id": "small", "type": "end", "output": "small"},
        {"id": "big", "type": "end", "output": "big"},
    )
    await bench.start(document, {"n": 2})
    assert (await bench.ended()).result == "big"


async def parallel_join(bench: Bench) -> None:
    branches: JsonValue = [{"name": "x", "nodes": [step("a")]}, {"name": "y", "nodes": [step("b")]}]
    bench.performer.script = {"a": 1, "b": 2}
    await bench.start(
        native(
            {"id": "both", "type": "parallel", "branches": branches}, {"id": "e", "type": "end", "output": "${.both}"}
        )
    )
    assert (await bench.ended()).result == {"x": 1, "y": 2}


async def duplicate_start(bench: Bench) -> None:
    await bench.start(native(step("a"), END))
    workflow = build_workflow(native(step("a"), END))
    again = inputs.StartRun(at=bench.now(), run_id="r", input={})
    decision = await bench.host.start(again, workflow_hash=workflow.hash)
    assert isinstance(decision, Refused)
    assert decision.code == "DUPLICATE_EXECUTION_ID"
    assert (await bench.ended()).status == "completed"


async def late_second_answer(bench: Bench) -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "?", "answer": {"type": "object"}}
    await bench.start(native(ask, {"id": "e", "type": "end", "output": "${ .ask }"}))
    await bench.status("waiting_input")
    first = await bench.host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer={"who": 1}))
    second = await bench.host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer={"who": 2}))
    assert isinstance(first, Accepted)
    assert isinstance(second, Refused)
    assert (await bench.ended()).result == {"who": 1}


async def host_activity(bench: Bench) -> None:
    document = native(step("a", retry={"max_attempts": 2}), {"id": "e", "type": "end", "output": "${ .a }"})
    await bench.start(document, mode="host_mediated")
    await bench.status("waiting_activity")
    failed = inputs.FailActivity(at=bench.now(), node_id="a", error="no", code="NO")
    assert isinstance(await bench.host.send("r", failed), Accepted)
    await bench.until(lambda state: any(item.attempt == 2 for item in state.activations()))
    done = inputs.CompleteActivity(at=bench.now(), node_id="a", result={"ok": 1})
    assert isinstance(await bench.host.send("r", done), Accepted)
    again = await bench.host.send("r", done)
    assert isinstance(again, Refused)
    assert again.code == "ACTIVITY_SUBMIT_NOT_AWAITING"
    assert (await bench.ended()).result == {"ok": 1}
    assert bench.performer.calls == []


async def leases(bench: Bench) -> None:
    await bench.start(native(step("a"), END), mode="host_mediated")
    await bench.status("waiting_activity")

    def lease(holder: str, lease_ms: int) -> inputs.LeaseActivity:
        return inputs.LeaseActivity(at=bench.now(), node_id="a", holder=holder, lease_ms=lease_ms)

    first, second = await asyncio.gather(*(bench.host.send("r", lease(name, 60_000)) for name in ("ada", "bob")))
    [refused] = [item for item in (first, second) if isinstance(item, Refused)]
    assert refused.code == "ACTIVITY_LEASED"
    assert refused.details is not None
    winner = str(refused.details["holder"])
    loser = "bob" if winner == "ada" else "ada"
    assert isinstance(await bench.host.send("r", lease(winner, 0)), Accepted)
    assert isinstance(await bench.host.send("r", lease(loser, 60_000)), Accepted)
    late = await bench.host.send("r", inputs.CompleteActivity(at=bench.now(), node_id="a", holder=winner))
    assert isinstance(late, Refused)
    assert late.code == "ACTIVITY_LEASE_LOST"
    done = await bench.host.send("r", inputs.CompleteActivity(at=bench.now(), node_id="a", holder=loser))
    assert isinstance(done, Accepted)
    assert (await bench.ended()).status == "completed"


async def activity_asks(bench: Bench) -> None:
    first = ActivityAsks("Which branch?", {"type": "string"}, {"task": 1})
    second = ActivityAsks("Sure?", {"type": "boolean"}, {"task": 2})
    bench.performer.script = {"a": (first, second, ActivityDone({"n": 3}))}
    await bench.start(native(step("a"), {"id": "e", "type": "end", "output": "${ .a.n }"}))
    await bench.status("waiting_input")
    await bench.host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer="main", interrupt_id="a:1:1"))
    await bench.until(lambda state: any(item.interrupt_id == "a:1:2" for item in open_questions(state)))
    late = await bench.host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer="next", interrupt_id="a:1:1"))
    assert isinstance(late, Refused)
    await bench.host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer=True, interrupt_id="a:1:2"))
    assert (await bench.ended()).result == 3
    assert bench.performer.calls == ["r/a/1/1", "r/a/1/1/1", "r/a/1/1/2"]
    assert bench.performer.heard == [
        {"resume": {"task": 1}, "answer": "main"},
        {"resume": {"task": 2}, "answer": True},
    ]


async def question_that_cannot_be_asked(bench: Bench) -> None:
    bench.performer.script = {"a": (ActivityAsks("?", {"type": "nonsense"}),)}
    await bench.start(native(step("a"), END))
    failure = (await bench.ended()).failure
    assert failure is not None
    assert failure.code == "SUBMIT_VALIDATION_ERROR"


async def cancel_while_asking(bench: Bench) -> None:
    bench.performer.script = {"a": (ActivityAsks("?", {}),)}
    await bench.start(native(step("a"), END))
    await bench.status("waiting_input")
    assert isinstance(await bench.host.send("r", inputs.CancelRun(at=bench.now())), Accepted)
    assert (await bench.ended()).status == "cancelled"


async def question_expires(bench: Bench) -> None:
    bench.performer.script = {"a": (ActivityAsks("?", {}),)}
    await bench.start(native(step("a", timeout="50ms", on_error=[{"code": "TIMEOUT", "fallback": "late"}]), END))
    state = await bench.ended()
    assert isinstance(state.result, dict)
    assert state.result["a"] == "late"


async def timer(bench: Bench) -> None:
    await bench.start(native({"id": "nap", "type": "wait", "duration": "30ms"}, step("a"), END))
    began = (await bench.until(lambda state: state.seq > 0)).started_at
    ended = await bench.ended()
    assert ended.status == "completed"
    assert ended.updated_at - began >= 30


async def early_signal(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    document = native(
        step("a"), {"id": "w", "type": "wait", "signal": "go"}, {"id": "e", "type": "end", "output": "${ .w }"}
    )
    await bench.start(document)
    sent = await bench.host.send("r", inputs.SendSignal(at=bench.now(), name="go", payload={"n": 7}))
    assert isinstance(sent, Accepted)
    bench.performer.gates["a"].set()
    assert (await bench.ended()).result == {"n": 7}


async def failure(bench: Bench) -> None:
    bench.performer.script = {"a": (ActivityError("broken", "BROKEN", retryable=False),)}
    await bench.start(native(step("a", retry={"max_attempts": 5}), END))
    state = await bench.ended()
    assert state.status == "failed"
    assert state.failure is not None
    assert state.failure.code == "BROKEN"


async def retry_then_success(bench: Bench) -> None:
    bench.performer.script = {"a": (ActivityError("no", "NO"), ActivityError("no", "NO"), ActivityDone({"n": 3}))}
    retry: JsonValue = {"max_attempts": 3, "initial_interval": "5ms"}
    await bench.start(native(step("a", retry=retry), {"id": "e", "type": "end", "output": "${ .a.n }"}))
    assert (await bench.ended()).result == 3
    assert bench.performer.calls == ["r/a/1/1", "r/a/1/2", "r/a/1/3"]


async def attempt_times_out(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    await bench.start(native(step("a", timeout="30ms", on_error=[{"code": "TIMEOUT", "fallback": "late"}]), END))
    state = await bench.ended()
    assert isinstance(state.result, dict)
    assert state.result["a"] == "late"


async def cancel_reaches_activities(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    await bench.start(native(step("a"), END))
    await bench.status("waiting_activity")
    assert isinstance(await bench.host.send("r", inputs.CancelRun(at=bench.now(), reason="enough")), Accepted)
    state = await bench.ended()
    assert (state.status, state.cancel_reason) == ("cancelled", "enough")


async def pause_and_resume(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    await bench.start(native(step("a"), step("b"), END))
    await bench.host.send("r", inputs.PauseRun(at=bench.now()))
    bench.performer.gates["a"].set()
    await bench.until(lambda state: any(item.phase == "resolved" for item in state.activations()))
    assert [name for name in bench.performer.calls if "/b/" in name] == []
    await bench.host.send("r", inputs.ResumeRun(at=bench.now()))
    assert (await bench.ended()).status == "completed"


async def child_run(bench: Bench) -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "?", "answer": {"type": "object"}}
    child = native(ask, {"id": "e", "type": "end", "output": "${ .ask.n }"}, name="child")
    await bench.host.register(build_workflow(child))
    calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "child", "input": {}}
    await bench.start(native(calls, {"id": "e", "type": "end", "output": "${ .sub }"}))
    await bench.status("waiting_input", "r:sub:sub")
    assert run_status(await bench.until(lambda state: True)) == "waiting_child"
    await bench.host.send("r:sub:sub", inputs.AnswerInterrupt(at=bench.now(), answer={"n": 5}))
    assert (await bench.ended()).result == 5


async def cancel_reaches_children(bench: Bench) -> None:
    waits = native({"id": "w", "type": "wait", "signal": "never"}, {"id": "e", "type": "end"}, name="child")
    await bench.host.register(build_workflow(waits))
    calls: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "child", "input": {}}
    await bench.start(native(calls, {"id": "e", "type": "end"}))
    await bench.status("waiting_signal", "r:sub:sub")
    await bench.host.send("r", inputs.CancelRun(at=bench.now()))
    assert (await bench.ended()).status == "cancelled"
    assert (await bench.ended("r:sub:sub")).status == "cancelled"


async def emit_to_another_run(bench: Bench) -> None:
    waits = native(
        {"id": "w", "type": "wait", "signal": "go"}, {"id": "e", "type": "end", "output": "${ .w }"}, name="w"
    )
    await bench.start(waits, run_id="listener")
    emit: JsonObject = {"id": "say", "type": "emit", "run": "listener", "signal": "go", "payload": {"n": 1}}
    await bench.start(native(emit, {"id": "e", "type": "end"}))
    assert (await bench.ended("listener")).result == {"n": 1}
    assert (await bench.ended()).status == "completed"


async def history_folds_to_the_same_state(bench: Bench) -> None:
    items: JsonObject = {
        "id": "each",
        "type": "for_each",
        "items": "[1,2,3]",
        "concurrency": 2,
        "nodes": [{**step("a"), "with": {"n": "${ .item }"}}],
    }
    document = native(items, END)
    await bench.start(document)
    state = await bench.ended()
    records = await bench.host.history("r")
    assert fold(records) == state
    outcome = replay(build_workflow(document), records)
    assert isinstance(outcome, Replayed)
    assert outcome.state == state
    assert outcome.missing == ()


async def burst(bench: Bench) -> None:
    document = native(*(step(f"s{number}") for number in range(5)), {"id": "e", "type": "end", "output": "ok"})
    await asyncio.gather(*(bench.start(document, run_id=f"b{number}") for number in range(100)))
    states = await asyncio.gather(*(bench.ended(f"b{number}") for number in range(100)))
    assert [state.result for state in states] == ["ok"] * 100


async def definitions_are_pinned(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    await bench.start(native(step("a"), {"id": "e", "type": "end", "output": "old"}))
    await bench.host.register(build_workflow(native(step("a"), {"id": "e", "type": "end", "output": "new"})))
    bench.performer.gates["a"].set()
    assert (await bench.ended()).result == "old"


async def work_under_way_is_done_again_after_a_restart(bench: Bench) -> None:
    bench.performer.gates["a"] = asyncio.Event()
    bench.performer.script = {"a": 1}
    await bench.start(native(step("a"), {"id": "e", "type": "end", "output": "${ .a }"}))
    await bench.performer.called("r/a/1/1")
    await bench.restart()
    bench.performer.gates["a"].set()
    assert (await bench.ended()).result == 1
    assert bench.performer.calls == ["r/a/1/1"] * 2


async def a_timer_fires_after_a_restart(bench: Bench) -> None:
    await bench.start(native({"id": "nap", "type": "wait", "duration": "200ms"}, step("a"), END))
    await bench.restart()
    state = await bench.ended()
    assert state.status == "completed"
    assert state.updated_at - state.started_at >= 200


async def a_waiting_run_takes_its_answer_after_a_restart(bench: Bench) -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "?", "answer": {"type": "object"}}
    await bench.start(native(ask, step("a"), {"id": "e", "type": "end", "output": "${ .ask }"}))
    await bench.status("waiting_input")
    await bench.restart()
    answered = await bench.host.send("r", inputs.AnswerInterrupt(at=bench.now(), answer={"n": 1}))
    assert isinstance(answered, Accepted)
    assert (await bench.ended()).result == {"n": 1}


async def a_fork_goes_on_by_itself(bench: Bench) -> None:
    bench.performer.script = {"a": 1, "b": 2}
    await bench.start(native(step("a"), step("b"), {"id": "e", "type": "end", "output": "${ .b }"}))
    await bench.ended()
    records = await bench.host.history("r")
    at_seq = next(item.seq for item in records if item.name == "ActivityCompleted")
    forked = fork(records, at_seq=at_seq, run_id="f", at=bench.now(), by=None, untrusted=False)
    assert await bench.host.adopt(await bench.host.fold(forked), forked, labels={"team": "blue"}) is None
    assert (await bench.ended("f")).result == 2
    refused = await bench.host.adopt(await bench.host.fold(forked), forked)
    assert refused is not None
    assert refused.code == "DUPLICATE_EXECUTION_ID"
    row = await bench.host.row("f")
    assert row is not None
    assert row.labels == {"team": "blue"}
    assert bench.performer.calls.count("f/b/1/1") == 1


async def who_waits_is_told_and_who_asks_for_nobody_hears_so(bench: Bench) -> None:
    await bench.start(native({"id": "w", "type": "wait", "signal": "go"}, {"id": "e", "type": "end"}))
    state = await bench.status("waiting_signal")
    waiting = asyncio.ensure_future(bench.host.wait("r", after_seq=state.seq, timeout_seconds=SECONDS_MAX))
    ending = asyncio.ensure_future(bench.host.wait_for_end("r", timeout_seconds=SECONDS_MAX))
    with bench.host.watched("r", after_seq=state.seq) as moved:
        await bench.host.send("r", inputs.SendSignal(at=bench.now(), name="go"))
        await asyncio.wait_for(moved, SECONDS_MAX)
    later = await waiting
    assert later is not None
    assert later.seq > state.seq
    ended = await ending
    assert ended is not None
    assert ended.terminal
    positions = await bench.host.positions(("r", "nobody"))
    assert {name: item.terminal for name, item in positions.items()} == {"r": True}
    assert await bench.host.read("nobody") is None
    assert await bench.host.row("nobody") is None
    assert await bench.host.history("nobody") == ()
    assert await bench.host.wait("nobody", after_seq=0, timeout_seconds=0) is None
    assert await bench.host.wait_for_end("nobody", timeout_seconds=0) is None


Case = Callable[[Bench], Awaitable[None]]
CASES: tuple[Case, ...] = (
    linear,
    switch,
    parallel_join,
    duplicate_start,
    late_second_answer,
    host_activity,
    leases,
    activity_asks,
    question_that_cannot_be_asked,
    cancel_while_asking,
    question_expires,
    timer,
    early_signal,
    failure,
    retry_then_success,
    attempt_times_out,
    cancel_reaches_activities,
    pause_and_resume,
    child_run,
    cancel_reaches_children,
    emit_to_another_run,
    history_folds_to_the_same_state,
    burst,
    definitions_are_pinned,
    work_under_way_is_done_again_after_a_restart,
    a_timer_fires_after_a_restart,
    a_waiting_run_takes_its_answer_after_a_restart,
    a_fork_goes_on_by_itself,
    who_waits_is_told_and_who_asks_for_nobody_hears_so,
)

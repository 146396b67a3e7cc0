"""Decisions: an expression that takes its time holds up its own run, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.jq.expressions import (
    Evaluated,
    EvaluationFailed,
    Evaluator,
    Expression,
    InProcessEvaluator,
    WouldWait,
)
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.outcomes import Accepted, Decision
from penstock.runtime.host import deciding
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import run_on
from tests.waiting import SECONDS_MAX


def adds(name: str, expression: str) -> JsonObject:
    return {
        "penstock": "v1",
        "name": name,
        "nodes": [
            {"id": "w", "type": "wait", "signal": "go"},
            {"id": "e", "type": "end", "output": f"${{ {expression} }}"},
        ],
    }


class Prompt(InProcessEvaluator):
    """What is never slow."""

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        if "reduce" in expression.text:
            raise WouldWait
        return InProcessEvaluator().evaluate(expression, root)


class Slow(InProcessEvaluator):
    """Evaluates when it is told to; whoever asks waits until then."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.may = threading.Event()
        self.evaluations = 0

    @property
    def prompt(self) -> Evaluator:
        return Prompt()

    def evaluate(self, expression: Expression, root: JsonValue) -> Evaluated | EvaluationFailed:
        self.asked.set()
        assert self.may.wait(SECONDS_MAX)
        self.evaluations += 1
        return InProcessEvaluator().evaluate(expression, root)


def test_a_run_goes_on_while_an_expression_of_another_takes_its_time() -> None:
    async def body(store: RunStore) -> None:
        evaluator = Slow()
        host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="here", evaluator=evaluator)
        for name, expression in (("slow", "reduce (1, 2) as $n (0; . + $n)"), ("quick", "1 + 1")):
            workflow = build_workflow(adds(name, expression))
            await host.register(workflow)
            await host.start(inputs.StartRun(at=1, run_id=name, input={}), workflow_hash=workflow.hash)
        slow = asyncio.ensure_future(host.send("slow", inputs.SendSignal(at=2, name="go")))
        await asyncio.to_thread(evaluator.asked.wait, SECONDS_MAX)
        assert isinstance(await host.send("quick", inputs.SendSignal(at=2, name="go")), Accepted)
        quick = await host.read("quick")
        assert quick is not None
        assert (quick.status, quick.result) == ("completed", 2)
        assert not slow.done()
        evaluator.may.set()
        assert isinstance(await slow, Accepted)
        ended = await host.read("slow")
        assert ended is not None
        assert (ended.status, ended.result, evaluator.evaluations) == ("completed", 3, 1)

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_program_that_never_ends_fails_its_run_and_the_next_run_of_it_is_decided_like_it() -> None:
    async def body(store: RunStore) -> None:
        with SandboxedEvaluator(time_budget_ms=200) as evaluator:
            host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="here", evaluator=evaluator)
            workflow = build_workflow(adds("endless", "last(range(1e12))"))
            await host.register(workflow)
            for name in ("first", "second"):
                await host.start(inputs.StartRun(at=1, run_id=name, input={}), workflow_hash=workflow.hash)
                await host.send(name, inputs.SendSignal(at=2, name="go"))
                state = await host.read(name)
                assert state is not None
                assert state.failure is not None
                assert "took longer" in state.failure.message

    run_on(RunStore(TemporaryDatabase()), body)


def test_a_decision_that_goes_on_and_on_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def noting(*arguments: Any, **more: Any) -> Decision:
        threads.append(threading.current_thread().name)
        return decide(*arguments, **more)

    async def body(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="here", evaluator=InProcessEvaluator())
        rounds: JsonObject = {"type": "loop", "until": "false", "max_iterations": 100, "on_exhausted": "continue"}
        note: JsonObject = {"id": "note", "type": "set_state", "set": {"n": "${ 1 }"}}
        nodes: list[JsonValue] = [{"id": "again", **rounds, "nodes": [note]}, {"id": "done", "type": "end"}]
        workflow = build_workflow({"penstock": "v1", "name": "long", "nodes": nodes})
        await host.register(workflow)
        decision = await host.start(inputs.StartRun(at=1, run_id="long", input={}), workflow_hash=workflow.hash)
        assert isinstance(decision, Accepted)
        assert decision.state.status == "completed"
        assert [record.seq for record in decision.records] == list(range(1, decision.state.seq + 1))
        assert decision.state.seq > limits.DECIDED_AT_ONCE

    monkeypatch.setattr(deciding, "decide", noting)
    run_on(RunStore(TemporaryDatabase()), body)
    assert threads[0] == threading.current_thread().name
    assert [name.startswith("penstock-deciding") for name in threads] == [False, True]


@pytest.mark.parametrize("values", [10, 20_000])
def test_a_decision_about_many_values_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch, values: int) -> None:
    threads: list[str] = []

    def noting(*arguments: Any, **more: Any) -> Decision:
        threads.append(threading.current_thread().name)
        return decide(*arguments, **more)

    async def body(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="here", evaluator=InProcessEvaluator())
        workflow = build_workflow(adds("wide", "1"))
        await host.register(workflow)
        wide: JsonValue = [[] for _ in range(values)]
        await host.start(inputs.StartRun(at=1, run_id="wide", input=wide), workflow_hash=workflow.hash)
        await host.send("wide", inputs.SendSignal(at=2, name="go", payload=wide))

    monkeypatch.setattr(deciding, "decide", noting)
    run_on(RunStore(TemporaryDatabase()), body)
    is_wide = values > limits.VALUES_AT_ONCE
    assert [name.startswith("penstock-deciding") for name in threads] == [is_wide, is_wide]

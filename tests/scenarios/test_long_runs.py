"""Nothing that grows with the length of a run is done on the event loop: every operation on 100,000 records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.outcomes import Accepted
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.operations.catalogue.capability import Capability, EventStream
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from tests.scenarios.loop_stalls import HeldUpError, in_tries, watched_loop
from tests.waiting import SECONDS_MAX

RECORDS: Final = 100_000
LONG: Final[dict[str, Any]] = {
    "penstock": "v1",
    "name": "long",
    "nodes": [
        {"id": "hear", "type": "wait", "signal": "go"},
        {"id": "more", "type": "switch", "cases": [{"when": ".hear.stop == true", "next": "ask"}], "default": "hear"},
        {"id": "ask", "type": "interrupt", "message": "Well?", "answer": {"type": "object"}},
        {"id": "done", "type": "end"},
    ],
}
# What a call needs beside the run that it is about.
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "execution.fork": {"at_sequence": 70_000},
    "execution.signal": {"name": "other"},
    "execution.update": {"name": "other", "wait_seconds": 0},
    "execution.answer": {"answer": {"ok": True}},
    "execution.submit_activity": {"node_id": "hear", "ok": True},
    "execution.lease_activity": {"node_id": "hear", "seconds": 5},
    "execution.query": {"expression": ".state"},
    "execution.wait": {"wait_seconds": 0},
    "execution.history": {"limit": 500},
    "execution.retry": {"node_id": "hear"},
    "control.workflow_resume": {"resume_payload": {"ok": True}},
    "control.workflow_submit_activity": {"node_id": "hear", "outcome": {"ok": True, "result": 1}},
    "control.workflow_signal": {"signal_name": "other"},
    "notification.set": {"notification_id": "n", "url": "https://example.com/news"},
    "notification.get": {"notification_id": "n"},
    "notification.delete": {"notification_id": "n"},
}
LAST: Final = ("execution.pause", "execution.resume", "execution.cancel", "execution.delete")
"""In this order, after everything else: they change what becomes of the run."""


def long_history(run_id: str) -> tuple[RunState, tuple[Record, ...]]:
    """A run that waits for the last of very many signals, decided without a host."""
    workflow = build_workflow(LONG)
    decision = decide(workflow, RunState(), inputs.StartRun(at=1, run_id=run_id, input={}))
    assert isinstance(decision, Accepted)
    state, records = decision.state, [*decision.records]
    number = 0
    while len(records) < RECORDS:
        number += 1
        signal = inputs.SendSignal(at=1 + number, name="go", payload={"n": number}, signal_id=f"s{number}")
        decision = decide(workflow, state, signal)
        assert isinstance(decision, Accepted), decision
        state = decision.state
        records.extend(decision.records)
    return state, tuple(records)


def about_runs(gate: Gate) -> list[Capability]:
    """Every operation that names a run, the harmless ones first."""
    named = [
        item
        for item in gate.catalogue.all()
        if "execution_id" in item.input_schema.get("properties", {})  # type: ignore[operator]  # an object
        and item.name not in STARTS
    ]
    return sorted(named, key=lambda item: (item.name in LAST, LAST.index(item.name) if item.name in LAST else 0))


STARTS: Final = frozenset({"workflow.execute", "task.execute", "agent.execute", "control.workflow_start"})
"""In these it is the id of a new run."""


async def call(gate: Gate, operation: str, arguments: dict[str, Any]) -> bool:
    """Make a call and read all of its answer; gives whether it was answered."""
    outcome = await gate.call(
        Request(operation=operation, arguments=arguments, principal=local_owner(), surface="rest", request_id="test")
    )
    if not isinstance(outcome, AnsweredCall):
        return False
    if isinstance(outcome.reply, EventStream):
        events = aiter(outcome.reply.events)
        for _ in range(100):
            await anext(events)
        await events.aclose()  # type: ignore[attr-defined]  # a generator
    else:
        await asyncio.to_thread(msgspec.json.encode, outcome.reply.value)
    return True


def test_no_operation_on_a_run_of_100_000_records_holds_up_the_loop(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            Penstock.open(tmp_path / "penstock.db", workflows=[LONG], perform=False) as penstock,
            open_gate(penstock) as gate,
        ):
            made: list[str] = []

            async def new_run() -> str:
                made.append(f"long-{len(made)}")
                state, records = await asyncio.to_thread(long_history, made[-1])
                assert await penstock.host.adopt(state, records) is None
                return made[-1]

            run_id = await new_run()
            held_up: list[str] = []
            answered: set[str] = set()
            operations = about_runs(gate)
            assert len(operations) > 20
            for item in operations:

                async def once(item: Capability = item) -> None:
                    given = {"execution_id": run_id, **ARGUMENTS.get(item.name, {})}
                    async with watched_loop() as stalls:
                        if await call(gate, item.name, given):
                            answered.add(item.name)
                    stalls.check(item.name)

                try:
                    await in_tries(once)
                except HeldUpError as error:
                    held_up.append(str(error))
            assert held_up == []
            assert {"execution.fork", "execution.history", "execution.status", "execution.stream"} <= answered

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))

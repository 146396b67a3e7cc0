"""Waiting with an execution: what is heard, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall
from penstock.runtime.ports.runs import StoredRun
from penstock.runtime.steps.registry import step
from tests.unit.operations.conftest import Caller, OpenGate, double
from tests.unit.operations.running import run
from tests.waiting import SECONDS_MAX, turns

FIVE: dict[str, Any] = {
    "penstock": "v1",
    "name": "five",
    "description": "Five steps.",
    "expose": {"tool": {}},
    "input": {"type": "object", "required": ["number"], "properties": {"number": {"type": ["integer", "null"]}}},
    "nodes": [
        {"id": "one", "type": "step", "handler": "double", "with": {"number": "${ .input.number }"}},
        {"id": "two", "type": "step", "handler": "double", "with": {"number": "${ .one }"}},
        {"id": "three", "type": "step", "handler": "double", "with": {"number": "${ .two }"}},
        {"id": "four", "type": "step", "handler": "double", "with": {"number": "${ .three }"}},
        {"id": "five", "type": "step", "handler": "double", "with": {"number": "${ .four }"}},
        {"id": "done", "type": "end", "output": "${ .five }"},
    ],
}


def counted_loads(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose history is read from here on."""
    store, loads = caller.penstock.store, []
    load: Callable[[str], Awaitable[StoredRun | None]] = store.load

    async def counted(run_id: str) -> StoredRun | None:
        loads.append(run_id)
        return await load(run_id)

    monkeypatch.setattr(store, "load", counted)
    return loads


async def called(caller: Caller, observe: Callable[[JsonObject], Awaitable[None]] | None = None) -> Any:
    """The answer of the workflow as a tool."""
    request = Request(
        operation="workflow:five",
        arguments={"number": 1},
        principal=await caller.principal(),
        surface="mcp",
        request_id="test",
        observe=observe,
    )
    outcome = await caller.gate.call(request)
    assert isinstance(outcome, AnsweredCall), outcome
    return outcome.reply


@pytest.mark.parametrize("observed", [False, True])
def test_who_waits_with_a_run_that_goes_on_here_reads_no_history(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch, observed: bool
) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[FIVE])
        loads, told = counted_loads(caller, monkeypatch), []

        async def observe(news: JsonObject) -> None:
            told.append(news)

        reply = await called(caller, observe if observed else None)
        assert reply.value.output == 32
        assert loads == []
        sequences = [int(str(news["sequence"])) for news in told]
        assert sequences == sorted(set(sequences))
        assert not observed or told[-1]["status"] == "completed"

    run(open_caller, test)


def test_who_waits_for_the_end_of_a_run_that_goes_on_here_reads_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        somebody_waits = asyncio.Event()

        @step(name="held")
        async def held(number: int) -> int:
            await somebody_waits.wait()
            return number

        first = {"id": "zero", "type": "step", "handler": "held", "with": {"number": "${ .input.number }"}}
        async with (
            Penstock.open(tmp_path / "penstock.db", steps=[double, held]) as penstock,
            open_gate(penstock) as gate,
        ):
            caller = Caller(gate, local_owner(), penstock)
            await caller.call("workflow.import", workflows=[{**FIVE, "nodes": [first, *FIVE["nodes"]]}])
            loads = counted_loads(caller, monkeypatch)
            begun = await caller.call("workflow.execute", workflow_id="five", input={"number": 1})
            ending = asyncio.ensure_future(
                penstock.host.wait_for_end(begun["execution_id"], timeout_seconds=SECONDS_MAX)
            )
            await turns()
            somebody_waits.set()
            state = await ending
            assert state is not None
            assert state.result == 32
            assert loads == []

    asyncio.run(test())


def test_the_answer_of_a_start_that_waits_is_the_view_of_the_run_without_reading_it(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[FIVE])
        for given in ({"number": 1}, {"number": None}):  # the second one fails in its first step
            arguments: dict[str, Any] = {
                "workflow_id": "five",
                "input": given,
                "sync": True,
                "labels": {"team": "blue"},
            }
            with monkeypatch.context() as patched:
                loads = counted_loads(caller, patched)
                reply = await caller.reply("workflow.execute", **arguments)
                assert loads == []
            assert reply.status == 200
            answered = msgspec.to_builtins(reply.value)
            assert answered["status"] == ("completed" if given["number"] else "failed")
            assert answered == await caller.call("execution.status", execution_id=answered["execution_id"])

    run(open_caller, test)


def test_a_start_that_waits_again_with_the_same_id_answers_from_the_history(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[FIVE])
        arguments = {"workflow_id": "five", "input": {"number": 1}, "sync": True, "execution_id": "mine"}
        first = await caller.call("workflow.execute", **arguments)
        assert first["output"] == 32
        assert await caller.call("workflow.execute", **arguments) == first

    run(open_caller, test)


def test_who_waits_with_a_run_that_continues_as_new_waits_for_the_one_that_continues_it(open_caller: OpenGate) -> None:
    nodes = [
        {"id": "nap", "type": "wait", "duration": "10ms"},
        {"id": "more", "type": "switch", "cases": [{"when": ".input.left > 0", "next": "again"}], "default": "done"},
        {"id": "again", "type": "continue_as_new", "input": {"left": "${ .input.left - 1 }"}},
        {"id": "done", "type": "end", "output": {"left": "${ .input.left }"}},
    ]
    given = {"type": "object", "required": ["left"], "properties": {"left": {"type": "integer"}}}
    document = {"penstock": "v1", "name": "rounds", "input": given, "expose": {"tool": True}, "nodes": nodes}

    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[document])
        answer = await caller.call("workflow:rounds", left=2)
        assert (answer["status"], answer["output"]) == ("completed", {"left": 0})
        first, last = answer["execution_id"].partition("~")[0], answer["execution_id"]
        waited = await caller.call("execution.wait", execution_id=first)
        assert (waited["execution_id"], waited["output"]) == (last, {"left": 0})
        # What has been deleted does not begin, however long somebody waits: longer than this test may take.
        for later in (f"{first}~2", last):
            await caller.call("execution.delete", execution_id=later)
        gone = await caller.call("execution.wait", execution_id=first, wait_seconds=limits.SYNC_WAIT_SECONDS_MAX)
        assert (gone["execution_id"], gone["status"]) == (first, "completed")
        assert "output" not in gone

    run(open_caller, test)


@pytest.mark.parametrize("observed", [False, True])
def test_a_run_that_ends_as_it_begins_is_answered_from_what_was_stored(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch, observed: bool
) -> None:
    at_once = {**FIVE, "nodes": [{"id": "done", "type": "end", "output": "${ .input.number }"}]}

    async def test(caller: Caller) -> None:
        await caller.call("workflow.import", workflows=[at_once])
        store, rows, told = caller.penstock.store, [], []
        row = store.row

        async def counted(run_id: str) -> Any:
            rows.append(run_id)
            return await row(run_id)

        async def observe(news: JsonObject) -> None:
            told.append(news["status"])

        monkeypatch.setattr(store, "row", counted)
        reply = await called(caller, observe if observed else None)
        assert (reply.value.status, reply.value.output) == ("completed", 1)
        # The receiver of told what happens is told of the end, too; for that the run is looked at.
        assert (len(rows) > 0, told) == ((True, ["completed"]) if observed else (False, []))

    run(open_caller, test)

"""Drawings and timelines of executions: states, bars, marks, and their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base import limits
from penstock.operations.runs.views import view_of_run
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import workflow
from tests.unit.operations.running import run, status

BREAKS = workflow(
    "breaks",
    {"id": "look", "type": "switch", "cases": [{"when": ".input.ok", "next": "done"}], "default": "stop"},
    {"id": "stop", "type": "fail", "code": "NO_STOCK", "message": "<b>sold out</b>"},
    {"id": "done", "type": "end"},
)
COUNTS: dict[str, Any] = workflow(
    "counts",
    {"id": "begin", "type": "set_state", "set": {"number": 0}},
    {"id": "add", "type": "set_state", "set": {"number": "${ .state.number + 1 }"}},
    {"id": "enough", "type": "switch", "cases": [{"when": ".state.number < 5", "next": "add"}], "default": "done"},
    {"id": "done", "type": "end"},
)


async def finished(caller: Caller, document: dict[str, Any]) -> str:
    await caller.call("workflow.create", document=document)
    view = await caller.call("workflow.execute", workflow_id=document["name"], sync=True)
    found: str = view["execution_id"]
    return found


def test_a_drawing_has_the_state_of_every_node_and_no_style_of_its_own(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        drawing = await caller.call("execution.drawing", execution_id=await finished(caller, BREAKS))
        svg = drawing["svg"]
        assert drawing["nodes"] == 3
        assert [f"state-{state}" in svg for state in ("completed", "failed", "pending")] == [True, True, True]
        assert 'href="#node-look"' in svg
        assert "<style" not in svg
        assert "<b>" not in svg

    run(open_caller, test)


def test_a_workflow_with_too_many_nodes_is_not_drawn(open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WORKFLOW_DRAWN_NODES_MAX", 2)

    async def test(caller: Caller) -> None:
        drawing = await caller.call("execution.drawing", execution_id=await finished(caller, BREAKS))
        assert (drawing["svg"], drawing["nodes"]) == (None, 3)

    run(open_caller, test)


def test_a_timeline_has_a_bar_for_every_visit_and_names_the_failure(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        execution_id = await finished(caller, BREAKS)
        timeline = await caller.call("execution.timeline", execution_id=execution_id)
        lanes = {lane["node_id"]: [bar["status"] for bar in lane["bars"]] for lane in timeline["lanes"]}
        assert lanes == {"look": ["completed"], "stop": ["failed"]}
        history = await caller.call("execution.history", execution_id=execution_id)
        names = {item["seq"]: item["name"] for item in history["items"]}
        assert names[timeline["first_failure"]] == "FailNode"
        assert timeline["sequence"] == len(names)
        last = await caller.call("execution.timeline", execution_id=execution_id, at="2999-01-01T00:00:00Z")
        first = await caller.call("execution.timeline", execution_id=execution_id, at="1999-01-01T00:00:00Z")
        assert (first["at_sequence"], last["at_sequence"]) == (1, len(names))

    run(open_caller, test)


def test_where_there_are_too_many_visits_a_bar_stands_for_several(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TIMELINE_BARS_MAX", 6)
    monkeypatch.setattr(limits, "TIMELINE_LANES_MAX", 3)

    async def test(caller: Caller) -> None:
        timeline = await caller.call("execution.timeline", execution_id=await finished(caller, COUNTS))
        lanes = {lane["node_id"]: [bar["visits"] for bar in lane["bars"]] for lane in timeline["lanes"]}
        assert lanes == {"begin": [1], "add": [3, 2], "enough": [3, 2]}
        assert timeline["lanes_left_out"] == 1

    run(open_caller, test)


def test_a_view_made_from_the_state_in_memory_is_the_one_that_its_history_gives(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("workflow.execute", workflow_id="ask", execution_id="x", input={"to": "me"})
        await status(caller, "x", "waiting_input")
        host = caller.penstock.host
        stored = await caller.penstock.store.load("x")
        assert stored is not None
        definition = await host.workflow(stored.row.definition_hash)
        assert definition is not None
        state = caller.penstock.run_memory.known_state(stored.row)
        assert state is not None
        folded = view_of_run(stored.row, definition, stored.records, "/api/v0")
        assert view_of_run(stored.row, definition, stored.records, "/api/v0", state=state) == folded

    run(open_caller, test)

"""An approval covers what a call can reach: a change of anything below it makes people look again, or is not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.office import Office, in_office
from tests.waiting import until

CHILD: dict[str, Any] = {
    "penstock": "v1",
    "name": "child",
    "nodes": [{"id": "done", "type": "end", "output": {"paid": 7}}],
}
WORSE: dict[str, Any] = {**CHILD, "nodes": [{"id": "done", "type": "end", "output": {"paid": 7000}}]}
PARENT: dict[str, Any] = {
    "penstock": "v1",
    "name": "parent",
    "governance": {"risk": "high"},
    "expose": {"tool": True},
    "nodes": [
        {"id": "pay", "type": "subworkflow", "workflow": "child", "input": {}},
        {"id": "done", "type": "end", "output": "${ .pay }"},
    ],
}
WAITING: dict[str, Any] = {
    **PARENT,
    "nodes": [{"id": "hold", "type": "wait", "signal": "go"}, *PARENT["nodes"]],
}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "tool": ("workflow:parent", {}),
    "execute": ("workflow.execute", {"workflow_id": "parent", "sync": True}),
    "control": ("control.workflow_start", {"definition": PARENT, "input": {}}),
    "schedule": ("schedule.create", {"workflow_id": "parent", "cron": "0 6 * * *"}),
}


async def _store(office: Office, *documents: dict[str, Any]) -> None:
    for document in documents:
        await office.call(office.owner, "workflow.create", document=document)


async def _change(office: Office, document: dict[str, Any]) -> None:
    await office.call(office.owner, "workflow.update", workflow_id=document["name"], document=document)


async def _propose(office: Office, operation: str, **arguments: Any) -> str:
    held = await office.call("robot", operation, **arguments)
    assert held["status"] == "waiting_approval", held
    draft_id: str = held["held"]["draft_id"]
    return draft_id


@pytest.mark.parametrize("way", WAYS)
def test_a_child_that_changes_after_the_request_is_shown_and_nothing_is_made(tmp_path: Path, way: str) -> None:
    operation, arguments = WAYS[way]

    async def test(office: Office) -> None:
        await _store(office, CHILD, PARENT)
        draft_id = await _propose(office, operation, **arguments)
        assert (await office.call("ada", "draft.review", draft_id=draft_id))["changed"] == []
        await _change(office, WORSE)
        seen = await office.call("ada", "draft.review", draft_id=draft_id)
        assert seen["changed"] == ["state"]
        (change,) = seen["reached"]
        assert change["name"] == "workflow:child"
        assert None not in (change["before"], change["now"])
        refused = await office.refusal("ada", "draft.approve", draft_id=draft_id)
        assert refused.code == "DRAFT_DRIFTED"
        assert (await office.call(office.owner, "execution.list", workflow_id="parent"))["items"] == []

    in_office(tmp_path, test)


def test_a_run_that_was_approved_runs_the_child_that_was_approved(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await _store(office, CHILD, WAITING)
        draft_id = await _propose(office, "workflow.execute", workflow_id="parent")
        made = await office.call("ada", "draft.approve", draft_id=draft_id)
        run_id = made["result"]["execution_id"]
        await _change(office, WORSE)
        await office.call(office.owner, "execution.signal", execution_id=run_id, name="go")
        ended = await office.call(office.owner, "execution.wait", execution_id=run_id, wait_seconds=30)
        assert (ended["status"], ended["output"]) == ("completed", {"paid": 7})
        again = await office.call(office.owner, "workflow.execute", workflow_id="parent")
        await office.call(office.owner, "execution.signal", execution_id=again["execution_id"], name="go")
        newer = await office.call(office.owner, "execution.wait", execution_id=again["execution_id"], wait_seconds=30)
        assert newer["output"] == {"paid": 7000}

    in_office(tmp_path, test)


def test_a_child_that_did_not_exist_when_the_run_was_approved_does_not_start(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await _store(office, WAITING)
        draft_id = await _propose(office, "workflow.execute", workflow_id="parent")
        made = await office.call("ada", "draft.approve", draft_id=draft_id)
        run_id = made["result"]["execution_id"]
        await _store(office, WORSE)
        await office.call(office.owner, "execution.signal", execution_id=run_id, name="go")
        ended = await office.call(office.owner, "execution.wait", execution_id=run_id, wait_seconds=30)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "APPROVED_VERSION_CHANGED")

    in_office(tmp_path, test)


def test_what_a_run_calls_through_the_gate_is_what_was_approved_or_is_refused(tmp_path: Path) -> None:
    called = {**CHILD, "expose": {"tool": True}}
    caller = {
        **PARENT,
        "nodes": [
            {"id": "hold", "type": "wait", "signal": "go"},
            {
                "id": "pay",
                "type": "tool_call",
                "server": "penstock",
                "tool": "workflow.execute",
                "arguments": {"workflow_id": '${ .input.which // "child" }', "sync": True},
            },
            {"id": "done", "type": "end", "output": "${ .pay }"},
        ],
    }

    async def test(office: Office) -> None:
        await _store(office, called, caller)
        runs = []
        for _ in range(2):
            draft_id = await _propose(office, "workflow.execute", workflow_id="parent")
            made = await office.call("ada", "draft.approve", draft_id=draft_id)
            runs.append(made["result"]["execution_id"])
        await office.call(office.owner, "execution.signal", execution_id=runs[0], name="go")
        first = await office.call(office.owner, "execution.wait", execution_id=runs[0], wait_seconds=30)
        assert first["status"] == "completed", first
        await _change(office, {**WORSE, "expose": {"tool": True}})
        await office.call(office.owner, "execution.signal", execution_id=runs[1], name="go")
        second = await office.call(office.owner, "execution.wait", execution_id=runs[1], wait_seconds=30)
        assert (second["status"], second["error"]["code"]) == ("failed", "APPROVED_VERSION_CHANGED")

    in_office(tmp_path, test)


def test_a_run_that_continues_as_new_keeps_the_version_that_was_approved(tmp_path: Path) -> None:
    turning = {
        **PARENT,
        "nodes": [
            {"id": "hold", "type": "wait", "signal": "go"},
            {
                "id": "more",
                "type": "switch",
                "cases": [{"when": ".input.last == true", "next": "pay"}],
                "default": "on",
            },
            {"id": "on", "type": "continue_as_new", "input": {"last": True}, "version": "newest"},
            *PARENT["nodes"],
        ],
    }
    other = {**turning, "nodes": [{"id": "done", "type": "end", "output": {"paid": 9000}}]}

    async def test(office: Office) -> None:
        await _store(office, CHILD, turning)
        draft_id = await _propose(office, "workflow.execute", workflow_id="parent")
        made = await office.call("ada", "draft.approve", draft_id=draft_id)
        run_id = made["result"]["execution_id"]
        await _change(office, other)
        await office.call(office.owner, "execution.signal", execution_id=run_id, name="go")

        async def next_run() -> bool:
            listed = await office.call(office.owner, "execution.list", workflow_id="parent")
            return len(listed["items"]) == 2

        await until(next_run)
        listed = await office.call(office.owner, "execution.list", workflow_id="parent")
        successor = next(item["execution_id"] for item in listed["items"] if item["execution_id"] != run_id)
        await office.call(office.owner, "execution.signal", execution_id=successor, name="go")
        ended = await office.call(office.owner, "execution.wait", execution_id=successor, wait_seconds=30)
        assert ended["output"] == {"paid": 7}

    in_office(tmp_path, test)

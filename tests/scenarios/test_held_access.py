"""A held call is as closed through operations on executions as it is through those on drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.governance.holds import Approval
from penstock.operations.builtin import builtin_operations
from penstock.operations.gate.context import HoldChoices
from penstock.operations.gate.pipeline import RefusedCall
from penstock.operations.runs.held_calls import held_name
from penstock.operations.runs.tool_schemas import object_at
from tests.scenarios.office import ERASE, Office, in_office

OVER_MCP = {"surface": "mcp"}
# What each operation has to be told beside the execution.
MORE: dict[str, dict[str, Any]] = {
    "execution.query": {"expression": "."},
    "execution.fork": {"at_sequence": 3},
    "execution.signal": {"name": "paid"},
    "execution.update": {"name": "paid"},
    "execution.answer": {"answer": {"approved": True}},
    "execution.submit_activity": {"node_id": "call", "ok": True, "result": {}},
    "execution.lease_activity": {"node_id": "call", "seconds": 60},
    "notification.set": {"notification_id": "main", "url": "https://example.com/news"},
    "notification.get": {"notification_id": "main"},
    "notification.delete": {"notification_id": "main"},
    "control.workflow_resume": {"resume_payload": {"approved": True}},
    "control.workflow_submit_activity": {"node_id": "call", "outcome": {"ok": True, "result": {}}},
    "control.workflow_signal": {"signal_name": "paid"},
}
STARTS = {"workflow.execute", "agent.execute", "task.execute", "control.workflow_start"}
NAMING = sorted(
    capability.name
    for capability in builtin_operations()
    if "execution_id" in object_at(capability.input_schema, "properties") and capability.name not in STARTS
)
CHANGES = [
    name
    for name in NAMING
    if not next(item for item in builtin_operations() if item.name == name).annotations.read_only
    and name not in ("execution.answer", "control.workflow_resume")  # the engine says whose answer counts
]


def told(outcome: Any, execution_id: str) -> tuple[str, str]:
    assert isinstance(outcome, RefusedCall), outcome
    return outcome.error.code, outcome.error.message.replace(execution_id, "it")


def test_there_is_something_to_try() -> None:
    assert {"execution.status", "execution.stream", "execution.cancel", "control.workflow_status"} <= {*NAMING}
    assert len(NAMING) >= 18


@pytest.mark.parametrize("ended", [False, True])
def test_for_an_agent_the_held_call_of_another_does_not_exist(tmp_path: Path, ended: bool) -> None:
    async def test(office: Office) -> None:
        await office.hire("spy", "agent", "*")
        draft_id = await office.propose()
        if ended:
            await office.call("ada", "draft.approve", draft_id=draft_id)
        before = await office.call(office.owner, "execution.status", execution_id=draft_id)
        # What others looked at is kept for a while, and not for the spy.
        assert await office.call(office.owner, "execution.status", execution_id=draft_id) == before
        for name in NAMING:
            answers = [
                told(await office.outcome("spy", name, **MORE.get(name, {}), execution_id=named, request=more), named)
                for named in (draft_id, "r_01KA4T8R9B6S3VQ2XHJ7M5N0PE")
                for more in ({}, OVER_MCP)
            ]
            assert len({*answers}) == 1, (name, answers)
        assert await office.call(office.owner, "execution.status", execution_id=draft_id) == before
        if not ended:
            assert (await office.call("ada", "draft.approve", draft_id=draft_id))["status"] == "executed"
        assert await office.erased() == ["C-7"]

    in_office(tmp_path, test)


def test_an_agent_finds_the_held_call_of_another_in_no_list(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("spy", "agent", "*")
        draft_id = await office.propose()
        own = await office.propose("spy", customer="mine")
        name = held_name("workflow:erase_customer")
        for operation, arguments, member in (
            ("execution.list", {}, "items"),
            ("execution.list", {"text": "held"}, "items"),
            ("execution.list", {"status": ["waiting_approval"]}, "items"),
            ("workflow.executions", {"workflow_id": name}, "items"),
            ("control.workflow_list", {}, "executions"),
            ("draft.list", {}, "items"),
        ):
            for who in ("ada", "robot", "spy"):
                listed = (await office.call(who, operation, **arguments))[member]
                found = {item.get("execution_id") for item in listed} & {draft_id, own}
                wanted = {"ada": {draft_id, own}, "robot": {draft_id}, "spy": {own}}[who]
                assert found == wanted, (operation, who)

    in_office(tmp_path, test)


def test_no_page_of_a_list_tells_an_agent_of_held_calls_that_it_may_not_see(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("spy", "agent", "*")
        nothing = await office.call("spy", "execution.list", started_by="key:nobody", limit=1)
        drafts = [await office.propose(customer=f"C-{number}") for number in range(3)]
        held = await office.call("ada", "execution.status", execution_id=drafts[0])
        whose = {"started_by": held["started_by"]["principal"], "limit": 1}
        assert len((await office.call("ada", "execution.list", **{**whose, "limit": 9}))["items"]) == len(drafts)
        assert await office.call("spy", "execution.list", **whose) == nothing == {"items": [], "next_cursor": None}
        # Nor between, before or after what it may see.
        own = [await office.propose("spy", customer=f"mine {number}") for number in range(2)]
        await office.propose(customer="C-9")
        first = await office.call("spy", "execution.list", text="held", limit=1)
        assert [item["execution_id"] for item in first["items"]] == [own[1]]
        second = await office.call("spy", "execution.list", text="held", limit=1, cursor=first["next_cursor"])
        assert [item["execution_id"] for item in second["items"]] == [own[0]]
        assert second["next_cursor"] is None

    in_office(tmp_path, test)


def test_a_start_with_the_id_of_a_held_call_shows_nothing_of_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("spy", "agent", "*")
        draft_id = await office.propose(customer="secretive")
        greet = {**ERASE, "name": "greet", "governance": {"risk": "low"}}
        start = {"definition": greet, "input": {"customer": "C-1"}, "execution_id": draft_id}
        for more in ({}, {"allow_existing_execution_id": True}):
            held = await office.call("spy", "control.workflow_start", **start, **more)
            assert held["status"] == "waiting_approval"  # an agent's document waits, whatever its run is called
            assert "secretive" not in str(held)

    in_office(tmp_path, test)


def test_a_key_of_the_same_app_looks_and_changes_nothing(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("one", "agent", "*", groups=["app.crm"])
        await office.hire("two", "agent", "*", groups=["app.crm"])
        draft_id = await office.propose("one")
        assert (await office.call("two", "draft.get", draft_id=draft_id))["id"] == draft_id
        seen = await office.call("two", "execution.status", execution_id=draft_id)
        assert seen["status"] == "waiting_approval"
        await refuses_changes(office, "two", draft_id, {})

    in_office(tmp_path, test)


def test_a_model_that_calls_for_a_person_changes_no_held_call_of_another(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("owner", "person", "*")
        draft_id = await office.propose()
        await refuses_changes(office, "owner", draft_id, OVER_MCP)
        # The person whose key it is has the right to stop what runs.
        stopped = await office.call("owner", "execution.cancel", execution_id=draft_id)
        assert stopped["status"] == "cancelled"

    in_office(tmp_path, test, HoldChoices(approval=Approval(groups=("finance",))))


async def refuses_changes(office: Office, who: str, draft_id: str, request: dict[str, Any]) -> None:
    """Whoever neither made a call nor approves it is refused every change of it."""
    before = await office.call(office.owner, "execution.history", execution_id=draft_id)
    refused = await office.refusal(who, "draft.cancel", draft_id=draft_id, request=request)
    assert refused.code == "DRAFT_NOT_YOURS"
    for name in CHANGES:
        arguments = {**MORE.get(name, {}), "execution_id": draft_id}
        refused = await office.refusal(who, name, **arguments, request=request)
        assert refused.code in ("DRAFT_NOT_YOURS", "EXECUTION_NOT_ENDED"), (name, refused)
    for name in ("execution.answer", "control.workflow_resume"):
        arguments = {**MORE[name], "execution_id": draft_id}
        assert (await office.refusal(who, name, **arguments, request=request)).code == "PERSON_REQUIRED"
    assert await office.call(office.owner, "execution.history", execution_id=draft_id) == before


@pytest.mark.parametrize("way", ["execution.cancel", "control.workflow_cancel", "draft.cancel"])
def test_an_agent_withdraws_its_own_call_and_settles_none(tmp_path: Path, way: str) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        for name in ("execution.submit_activity", "execution.lease_activity", "control.workflow_submit_activity"):
            arguments = {**MORE[name], "execution_id": draft_id}
            assert (await office.refusal("robot", name, **arguments)).code == "PERSON_REQUIRED"
        named = {"draft_id": draft_id} if way == "draft.cancel" else {"execution_id": draft_id}
        await office.call("robot", way, **named)
        assert (await office.call("ada", "draft.get", draft_id=draft_id))["status"] == "canceled"

    in_office(tmp_path, test)

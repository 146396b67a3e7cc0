"""Approvers see what has changed since a call was proposed, what it would do, and whether they may decide about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.scenarios.office import ERASE, Office, in_office

RENAMED: dict[str, Any] = {**ERASE, "description": "Erases for good."}


async def _held(office: Office, operation: str, **arguments: Any) -> str:
    held = await office.call("robot", operation, **arguments)
    draft_id: str = held["held"]["draft_id"]
    return draft_id


def test_a_review_says_what_has_changed_since_and_what_the_call_would_do(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await _held(office, "workflow.execute", workflow_id="erase_customer", input={"customer": "C-7"})
        seen = await office.call("ada", "draft.review", draft_id=draft_id)
        assert (seen["changed"], seen["problem"]) == ([], None)
        assert seen["state_witness"]["id"] == "erase_customer"
        await office.call(office.owner, "workflow.update", workflow_id="erase_customer", document=RENAMED)
        later = await office.call("ada", "draft.review", draft_id=draft_id)
        assert later["changed"] == ["state"]
        assert later["state_witness"]["hash"] != seen["state_witness"]["hash"]
        assert (await office.refusal("ada", "draft.approve", draft_id=draft_id)).code == "DRAFT_DRIFTED"
        assert (await office.refusal("ada", "draft.review", draft_id=draft_id)).code == "DRAFT_FINAL"
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_the_plan_of_a_tool_is_shown_and_nothing_is_made_or_kept(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await _held(office, "workflow:erase_customer", customer="C-7")
        seen = await office.call("ada", "draft.review", draft_id=draft_id)
        assert (seen["changed"], seen["impact"]["workflow"]) == ([], "erase_customer")
        await office.call(office.owner, "workflow.delete", workflow_id="erase_customer")
        gone = await office.call("ada", "draft.review", draft_id=draft_id)
        assert gone["problem"]["code"] == "OPERATION_NOT_FOUND"
        assert await office.erased() == []

    in_office(tmp_path, test)


def test_a_draft_says_who_may_decide_and_for_whom_it_was_asked(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await _held(office, "workflow:erase_customer", customer="C-7")
        await office.hire("clerk", "person", "draft:read")
        seen = {who: await office.call(who, "draft.get", draft_id=draft_id) for who in ("ada", "clerk", "robot")}
        assert {who: view["decidable"] for who, view in seen.items()} == {"ada": True, "clerk": False, "robot": False}
        assert (seen["clerk"]["requester_name"], seen["clerk"]["acting_for"]) == ("robot", [])
        (listed,) = (await office.call("ada", "draft.list", status="open"))["items"]
        assert listed["decidable"]
        await office.call("ada", "draft.approve", draft_id=draft_id)
        assert not (await office.call("ada", "draft.get", draft_id=draft_id))["decidable"]
        await office.hire("spy", "agent", "*")
        assert (await office.refusal("spy", "draft.review", draft_id=draft_id)).code == "DRAFT_NOT_FOUND"

    in_office(tmp_path, test)

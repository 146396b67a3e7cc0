"""Where duties are separated, whoever is behind an agent does not approve what the agent wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.governance.holds import Approval
from penstock.operations.gate.context import HoldChoices
from tests.scenarios.office import Office, in_office
from tests.scenarios.test_authorship import WRAPPER, accepted
from tests.waiting import until_found

SEPARATE = HoldChoices(approval=Approval(groups=("approvers",), not_requester=True))
EXPOSED: dict[str, Any] = {**WRAPPER, "expose": {"tool": True}}
ASKS: dict[str, Any] = {
    "penstock": "v1",
    "name": "asks",
    "expose": {"tool": True},
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Pay?",
            "answer": {"type": "object"},
            "approvers": {"group": "approvers", "not_requester": True},
        },
        {"id": "done", "type": "end"},
    ],
}
ABOVE: dict[str, Any] = {
    "penstock": "v1",
    "name": "above",
    "nodes": [{"id": "inner", "type": "subworkflow", "workflow": "asks"}, {"id": "done", "type": "end"}],
}


async def hire(office: Office, subject: str | None) -> None:
    """Hire somebody who makes an agent, and somebody who starts what it wrote."""
    maker = await office.hire("maker", "person", "*")
    await office.hire("boss", "person", "*")
    more = {} if subject is None else {"subject": subject}
    await office.hire("bot", "agent", "*", maker=maker, **more)


@pytest.mark.parametrize("subject", [None, "machine:robot-7"])
def test_the_maker_of_an_agent_does_not_approve_a_start_of_what_it_wrote(tmp_path: Path, subject: str | None) -> None:
    async def test(office: Office) -> None:
        await hire(office, subject)
        proposed = await office.call("bot", "workflow.create", document=EXPOSED)
        refused = await office.refusal("maker", "draft.approve", draft_id=proposed["held"]["draft_id"])
        assert refused.code == "APPROVER_REQUIRED"
        await accepted(office, proposed)
        for operation, arguments in (("workflow.execute", {"workflow_id": "wrapper"}), ("workflow:wrapper", {})):
            held = await office.call("boss", operation, **arguments)
            draft_id = held["held"]["draft_id"]
            refused = await office.refusal("maker", "draft.approve", draft_id=draft_id)
            assert refused.code == "APPROVER_REQUIRED", (operation, refused)
            assert (await office.call("ada", "draft.approve", draft_id=draft_id))["status"] == "executed"

    in_office(tmp_path, test, SEPARATE)


@pytest.mark.parametrize("way", ["direct", "child", "fork"])
def test_the_maker_of_an_agent_does_not_answer_an_approval_in_what_it_wrote(tmp_path: Path, way: str) -> None:
    async def test(office: Office) -> None:
        await hire(office, None)
        await accepted(office, await office.call("bot", "workflow.create", document=ASKS))
        await office.call("boss", "workflow.create", document=ABOVE)
        name = "above" if way == "child" else "asks"
        run = await office.call("boss", "workflow.execute", workflow_id=name)
        asked = await asking(office, run["execution_id"])
        if way == "fork":
            run = await office.call("boss", "execution.fork", execution_id=asked, at_sequence=1)
            asked = await asking(office, run["execution_id"])
        refused = await office.refusal("maker", "execution.answer", execution_id=asked, answer={})
        assert refused.code == "APPROVER_REQUIRED", refused
        await office.call("ada", "execution.answer", execution_id=asked, answer={})

    in_office(tmp_path, test, SEPARATE)


async def asking(office: Office, execution_id: str) -> str:
    """The id of the execution that asks: this one, or its child."""

    async def look() -> Any:
        page = await office.call(office.owner, "execution.list", workflow_id="asks", status=["waiting_approval"])
        found = [item["execution_id"] for item in page["items"]]
        return next((name for name in found if name.startswith(execution_id)), None)

    found: str = await until_found(look)
    return found


def test_whoever_made_an_agent_approves_what_people_wrote(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await hire(office, None)
        await office.call("boss", "workflow.create", document=ASKS)
        run = await office.call("boss", "workflow.execute", workflow_id="asks")
        asked = await asking(office, run["execution_id"])
        await office.call("maker", "execution.answer", execution_id=asked, answer={})

    in_office(tmp_path, test, SEPARATE)


def test_the_maker_of_an_agent_does_not_approve_a_call_that_a_run_of_what_it_wrote_makes(tmp_path: Path) -> None:
    erase = {"id": "erase", "type": "tool_call", "server": "penstock", "tool": "workflow:erase_customer"}
    node = {**erase, "arguments": {"customer": "C-7"}}
    calls = {"penstock": "v1", "name": "calls", "nodes": [node, {"id": "done", "type": "end"}]}

    async def test(office: Office) -> None:
        await hire(office, None)
        await accepted(office, await office.call("bot", "workflow.create", document=calls))
        begun = await office.call("boss", "workflow.execute", workflow_id="calls")
        if "held" in begun:
            await accepted(office, begun)

        async def look() -> Any:
            page = await office.call(office.owner, "draft.list", status="open")
            return next((item["id"] for item in page["items"] if item["made_by_node"] == "erase"), None)

        draft_id = await until_found(look)
        assert (await office.refusal("maker", "draft.approve", draft_id=draft_id)).code == "APPROVER_REQUIRED"
        assert (await office.call("ada", "draft.approve", draft_id=draft_id))["status"] == "executed"

    in_office(tmp_path, test, SEPARATE)

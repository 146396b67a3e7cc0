"""What an assistant has when nobody chose anything: workflows, what follows them, and people who answer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from penstock.app.gate import local_owner
from penstock.mcp_surface.callers import ProtocolFault
from tests.live.mcp.clients import text_of
from tests.unit.mcp_surface.assistants import accept, assisted, exposed
from tests.unit.operations.conftest import Caller
from tests.zygote import piped_command

pytestmark = pytest.mark.anyio
# Every tool says its risk and what it needs, in 120 bytes or so.
TOOLS_MAX, BYTES_MAX = 7, 6_400
ANSWER = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
DONE = {"id": "done", "type": "end", "output": "${ .ask.ok }"}


def asking(**more: Any) -> dict[str, Any]:
    question = {"id": "ask", "type": "interrupt", "message": "Pay?", "answer": ANSWER, "next": "done", **more}
    return exposed("pays", question, DONE)


@asynccontextmanager
async def piped(folder: Path, *options: str) -> AsyncIterator[Client]:
    command, *arguments = piped_command("mcp", *options)
    parameters = StdioServerParameters(command=command, args=arguments, cwd=str(folder), env={**os.environ})
    async with Client(parameters) as client:
        yield client


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What `penstock init` makes."""
    subprocess.run(piped_command("init"), cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


async def test_a_fresh_project_offers_a_workflow_and_what_follows_it_and_nothing_else(project: Path) -> None:
    async with piped(project) as client:
        listed = (await client.list_tools()).tools
        names = {tool.name for tool in listed}
        size = len(json.dumps([tool.model_dump(exclude_none=True, by_alias=True) for tool in listed]).encode())
        assert "refund_order" in names
        assert not [name for name in names if name.startswith(("penstock_workflow", "penstock_schedule"))]
        assert (len(listed) <= TOOLS_MAX, size < BYTES_MAX) == (True, True), (names, size)
        refusals = []
        for name in ("penstock_workflow_update", "penstock_tools_call", "penstock_no_such_tool"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {"workflow_id": "refund_order", "name": "workflow.update"})
            message, _, suggested = refused.value.message.partition("; did you mean ")
            refusals.append((refused.value.code, message.replace(name, "…")))
            assert suggested.strip("`?") in {"", *names}, "only what is listed is named"
        assert len(set(refusals)) == 1
        asked = await client.call_tool("refund_order", {"order_id": "A-1", "amount": 500})
        waiting = asked.structured_content["execution_id"]
        given = {"execution_id": waiting, "answer": {"approve": True}}
        answered = await client.call_tool("penstock_execution_answer", given)
        assert answered.is_error
        assert "PERSON_REQUIRED" in text_of(answered)
    async with piped(project, "--management") as client:
        assert "penstock_workflow_get" in {tool.name for tool in (await client.list_tools()).tools}


async def test_a_key_has_management_only_if_it_says_so(tmp_path: Path) -> None:
    async with assisted(tmp_path, asking()) as assistant:
        assistant.options = type(assistant.options)(patience_seconds=20)
        with pytest.raises(ProtocolFault, match="Unknown tool: penstock_workflow_list"):
            await assistant.call("penstock_workflow_list")
        made = await assistant.caller.call("key.create", name="operator", scopes=["*"], toolset="management")
        holder = type(assistant)(assistant.caller.with_key(made["secret"]), assistant.options)
        assert not (await holder.call("penstock_workflow_list"))["isError"]


async def test_a_model_does_not_answer_a_question_to_a_person(tmp_path: Path) -> None:
    async with assisted(tmp_path, asking()) as assistant:
        waits = await assistant.call("pays", kinds=frozenset(), completes=False)
        told, run_id = waits["content"][0]["text"], waits["structuredContent"]["execution_id"]
        assert "a tool call cannot" in told
        assert "penstock_execution_answer" not in told
        ways = {"penstock_execution_answer": "answer", "penstock_control_workflow_resume": "resume_payload"}
        for tool, given in ways.items():
            refused = await assistant.call(tool, {"execution_id": run_id, given: {"ok": True}})
            assert "PERSON_REQUIRED" in refused["content"][0]["text"], tool
        await assistant.caller.call("execution.answer", execution_id=run_id, answer={"ok": True})


async def test_a_document_may_let_a_model_answer(tmp_path: Path) -> None:
    async with assisted(tmp_path, asking(answered_by="anyone")) as assistant:
        waits = await assistant.call("pays", kinds=frozenset(), completes=False)
        assert "penstock_execution_answer" in waits["content"][0]["text"]
        given = {"execution_id": waits["structuredContent"]["execution_id"], "answer": {"ok": True}}
        assert not (await assistant.call("penstock_execution_answer", given))["isError"]


async def test_a_person_still_answers_in_a_form(tmp_path: Path) -> None:
    async with assisted(tmp_path, asking()) as assistant:
        asked = await assistant.call("pays")
        answers = {"ask": accept(ok=True)}
        result = await assistant.call("pays", answers=answers, state=asked["requestState"])
        assert result["structuredContent"]["output"] is True


async def test_an_approval_is_given_by_its_group_and_nobody_else(tmp_path: Path) -> None:
    async with assisted(tmp_path, asking(approvers={"group": "leads"})) as assistant:
        scopes = ("workflow:*", "execution:*")
        clerk, lead = await assistant.other(*scopes), await assistant.other(*scopes, "approve:leads")
        waits = await clerk.call("pays")  # a form would be of no use: whoever fills it in may not approve
        assert "by leads" in waits["content"][0]["text"]
        run_id = waits["structuredContent"]["execution_id"]
        refused = await clerk.caller.refusal("execution.answer", execution_id=run_id, answer={"ok": True})
        assert (refused.code, "approve:leads" in str(refused.hint)) == ("APPROVER_REQUIRED", True)
        await lead.caller.call("execution.answer", execution_id=run_id, answer={"ok": True})


async def test_whoever_started_a_run_does_not_approve_it_where_the_document_says_so(tmp_path: Path) -> None:
    async with assisted(tmp_path, asking(approvers={"group": "leads", "not_requester": True})) as assistant:
        owner = Caller(assistant.caller.gate, local_owner(), assistant.caller.penstock)
        colleague = await owner.new_caller("*", kind="person")  # not with a key that whoever starts the run has made
        run_id = (await assistant.call("pays"))["structuredContent"]["execution_id"]
        refused = await assistant.caller.refusal("execution.answer", execution_id=run_id, answer={"ok": True})
        assert refused.code == "APPROVER_REQUIRED"
        await colleague.call("execution.answer", execution_id=run_id, answer={"ok": True})


WAITS = {"id": "later", "type": "wait", "signal": "go"}


async def answered(assistant: Any) -> tuple[str, int]:
    """A run whose question a person answered, and where it stands then."""
    run_id = (await assistant.call("pays", kinds=frozenset(), completes=False))["structuredContent"]["execution_id"]
    await assistant.caller.call("execution.answer", execution_id=run_id, answer={"ok": True})
    return run_id, (await assistant.caller.call("execution.status", execution_id=run_id))["sequence"]


async def test_a_model_does_not_fork_a_run_after_what_a_person_answered(tmp_path: Path) -> None:
    question = {"id": "ask", "type": "interrupt", "message": "Pay?", "answer": ANSWER}
    async with assisted(tmp_path, exposed("pays", question, WAITS, DONE)) as assistant:
        run_id, after = await answered(assistant)
        refused = await assistant.call("penstock_execution_fork", {"execution_id": run_id, "at_sequence": after})
        assert "PERSON_REQUIRED" in refused["content"][0]["text"]
        by_person = await assistant.caller.call("execution.fork", execution_id=run_id, at_sequence=after)
        assert by_person["status"] == "waiting_signal"
        again = {"execution_id": by_person["execution_id"], "at_sequence": by_person["sequence"]}
        refused = await assistant.call("penstock_execution_fork", again)  # what is inherited is a person's too
        assert "PERSON_REQUIRED" in refused["content"][0]["text"]


async def test_a_model_forks_a_run_after_what_anyone_may_answer(tmp_path: Path) -> None:
    question = {"id": "ask", "type": "interrupt", "message": "Pay?", "answer": ANSWER, "answered_by": "anyone"}
    async with assisted(tmp_path, exposed("pays", question, WAITS, DONE)) as assistant:
        run_id, after = await answered(assistant)
        forked = await assistant.call("penstock_execution_fork", {"execution_id": run_id, "at_sequence": after})
        assert forked["structuredContent"]["status"] == "waiting_signal"

"""Runs that wait for a person: what clients hear that cannot ask one, and what comes of declining a question."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import mcp_types as types
import pytest

from penstock.cli.mcp.client import ConnectOptions, connect_mcp
from penstock.cli.mcp.servers import HttpServer
from penstock.cli.mcp.tasks import TaskFollower, TaskState, TaskWaits
from tests.live.mcp.clients import connected, text_of
from tests.live.mcp.test_tasks import EXTENSION, ask
from tests.live.rest.servers import Answer, LiveServer, serving
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio

APPROVE: dict[str, Any] = {
    "penstock": "v1",
    "name": "refund",
    "expose": {"tool": True},
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Refund 120 for A-1042?",
            "answer": {
                "type": "object",
                "required": ["approve"],
                "properties": {"approve": {"type": "boolean"}, "comment": {"type": "string"}},
            },
            "approvers": {"group": "leads"},
            "timeout": "3d",
            "next": {"when": ".ask.approve", "then": "paid", "else": "refused"},
        },
        {"id": "paid", "type": "end", "output": "paid"},
        {"id": "refused", "type": "end", "output": "refused"},
    ],
}
PARENT: dict[str, Any] = {
    "penstock": "v1",
    "name": "parent",
    "expose": {"tool": True},
    "nodes": [
        {"id": "child", "type": "subworkflow", "workflow": "refund", "input": {}},
        {"id": "done", "type": "end", "output": "${ .child }"},
    ],
}
MERGE: dict[str, Any] = {
    "penstock": "v1",
    "name": "merge",
    "expose": {"tool": True},
    "nodes": [
        {key: value for key, value in {**APPROVE["nodes"][0], "id": "ask"}.items() if key != "approvers"},
        *APPROVE["nodes"][1:],
    ],
}
VETO: dict[str, Any] = {
    "penstock": "v1",
    "name": "veto",
    "expose": {"tool": True},
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Keep this out?",
            "answer": {"type": "object", "required": ["reject"], "properties": {"reject": {"type": "boolean"}}},
            "next": {"when": ".ask.reject", "then": "refused", "else": "paid"},
        },
        *APPROVE["nodes"][1:],
    ],
}
SAID: dict[str, Any] = {
    **VETO,
    "name": "said",
    "nodes": [{**VETO["nodes"][0], "decline": {"reject": True}}, *VETO["nodes"][1:]],
}
ONLY_TASKS: dict[str, Any] = {"extensions": {EXTENSION: {}}}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        for document in (APPROVE, PARENT, MERGE, VETO, SAID):
            running.call("POST", "workflows", {"document": document})
        yield running


def new_key(server: LiveServer, *scopes: str) -> str:
    made = server.call("POST", "keys", {"name": "somebody", "kind": "person", "scopes": list(scopes)})
    return str(made["secret"])


def page_in(text: str) -> str:
    """The address in a text, without the server's."""
    [url] = re.findall(r"http://\S+/answer\?\S+", text)
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def submit(server: LiveServer, path: str, **fields: str) -> Answer:
    return server.request("POST", path, urlencode(fields).encode(), headers=FORM, key="")


@pytest.fixture(scope="module")
def assistant(server: LiveServer) -> str:
    """The key of an assistant, who may run workflows and answer questions, and approve nothing."""
    return new_key(server, "workflow:*", "execution:*")


@pytest.mark.parametrize("workflow", ["refund", "parent"])
async def test_a_client_with_tasks_and_without_elicitation_hears_who_answers_and_where(
    server: LiveServer, assistant: str, workflow: str
) -> None:
    states: list[TaskState] = []
    manners = ConnectOptions(extensions=(TaskFollower(states.append, asks=False),), patience_seconds=SECONDS_MAX)
    place = HttpServer(url=f"{server.url}/mcp", headers={"Authorization": f"Bearer {assistant}"})
    async with connect_mcp(place, manners) as client:
        with pytest.raises(TaskWaits) as waits:
            await asyncio.wait_for(client.call_tool(workflow, {}), SECONDS_MAX)
    assert waits.value.state.status == "input_required"
    assert waits.value.questions == {}
    told = str(waits.value.state.message)
    assert "Refund 120 for A-1042?" in told
    assert "an approval by leads" in told
    assert re.search(r"until \d{4}-\d\d-\d\dT", told)
    asking = re.search(r"`penstock runs answer (\S+)`", told)
    assert asking is not None
    assert f"{server.url}/answer?execution={asking[1]}" in told
    assert server.call("GET", f"executions/{asking[1]}")["status"] == "waiting_approval"


def test_the_link_of_a_task_lets_in_who_may_approve_and_nobody_else(server: LiveServer, assistant: str) -> None:
    made = ask(server, "tools/call", name="refund", arguments={}, key=assistant, declared=ONLY_TASKS)["result"]
    assert (made["resultType"], made["status"]) == ("task", "input_required")
    task_id = made["taskId"]
    page = page_in(made["statusMessage"])
    shown = server.request("GET", page, key="")
    assert shown.status == 200
    assert b"Refund" not in shown.body
    stranger = submit(server, page, key="pen_nobody")
    assert (stranger.status, b"Refund" in stranger.body) == (403, False)
    for key, status in ((assistant, 403), (new_key(server, "execution:*", "approve:leads"), 200)):
        entered = submit(server, page, key=key)
        assert entered.status == 303
        form = f"/{entered.headers['location']}"
        assert b"Refund 120" in server.request("GET", form, key="").body
        assert submit(server, form, decision="approve").status == status
    assert server.call("GET", f"executions/{task_id}/wait?wait_seconds=240")["output"] == "paid"
    done = ask(server, "tasks/get", taskId=task_id, key=assistant, declared=ONLY_TASKS)["result"]
    assert (done["status"], "inputRequests" in done) == ("completed", False)
    assert submit(server, page, key=server.key).status == 409


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
async def test_every_way_to_look_at_a_run_says_the_same(server: LiveServer, assistant: str, era: str) -> None:
    async with connected(server, era, key=assistant) as client:
        called = await client.call_tool("refund", {})
        execution_id = called.structured_content["execution_id"]
        looked = await client.call_tool("penstock_execution_status", {"execution_id": execution_id})
    seen = await asyncio.to_thread(ask, server, "tasks/get", taskId=execution_id, key=assistant, declared=ONLY_TASKS)
    task = seen["result"]
    assert (task["status"], task["inputRequests"]) == ("input_required", {})
    said = task["statusMessage"].partition("Refund 120 for A-1042? ")[2]
    assert said.startswith("This needs an approval by leads")
    assert said in text_of(called)
    assert said in text_of(looked)
    first: Any = looked.content[0]
    assert json.loads(first.text)["execution_id"] == execution_id


async def decline(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def dismiss(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="cancel")


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
@pytest.mark.parametrize("workflow", ["merge", "said"])
async def test_a_declined_question_goes_on_as_the_document_says(server: LiveServer, era: str, workflow: str) -> None:
    async with connected(server, era, elicitation_callback=decline) as client:
        result = await client.call_tool(workflow, {})
    assert result.structured_content["status"] == "completed"
    assert result.structured_content["output"] == "refused"


@pytest.mark.parametrize("era", ["2026-07-28", "legacy"])
@pytest.mark.parametrize(("workflow", "person"), [("merge", dismiss), ("veto", decline)])
async def test_what_is_dismissed_or_has_no_answer_for_declining_stays_open(
    server: LiveServer, era: str, workflow: str, person: Any
) -> None:
    async with connected(server, era, elicitation_callback=person) as client:
        result = await client.call_tool(workflow, {})
    assert result.structured_content["status"] == "waiting_input"
    assert "did not answer" in text_of(result)
    assert ("the document has no answer for that" in text_of(result)) is (person is decline)


async def test_a_task_that_is_declined_ends_and_one_without_an_answer_for_that_is_left(server: LiveServer) -> None:
    place = HttpServer(url=f"{server.url}/mcp", headers={"Authorization": f"Bearer {server.key}"})
    follower = TaskFollower(lambda state: None, asks=True)
    async with connect_mcp(
        place, ConnectOptions(ask=decline, extensions=(follower,), patience_seconds=SECONDS_MAX)
    ) as client:
        ended = await asyncio.wait_for(client.call_tool("merge", {}), SECONDS_MAX)
        with pytest.raises(TaskWaits):
            await asyncio.wait_for(client.call_tool("veto", {}), SECONDS_MAX)
    assert ended.structured_content["output"] == "refused"


def test_rest_and_the_command_line_decline_alike(server: LiveServer, tmp_path: Path) -> None:
    begun = [server.call("POST", f"workflows/{name}/executions", {"input": {}}) for name in ("merge", "said", "veto")]
    ids = [item["execution_id"] for item in begun]
    asked = [server.call("GET", f"executions/{name}")["waiting_for"]["questions"][0] for name in ids]
    assert [question["decline"] for question in asked] == [{"approve": False}, {"reject": True}, None]
    server.call("POST", f"executions/{ids[0]}/answers", {"answer": asked[0]["decline"]})
    environment = {**os.environ, "PENSTOCK_API_KEY": server.key}
    finished = []
    for name in ids[1:]:
        command = [sys.executable, "-m", "penstock", "runs", "answer", name, "--decline", "--server", server.url]
        finished.append(
            subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        )
    assert [item.returncode for item in finished] == [0, 2], finished
    assert "no answer for declining" in finished[1].stderr
    outputs = [server.call("GET", f"executions/{name}/wait?wait_seconds=240").get("output") for name in ids[:2]]
    assert outputs == ["refused", "refused"]
    assert server.call("GET", f"executions/{ids[2]}")["status"] == "waiting_input"

"""The tasks extension on the wire, and across a power failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest

from penstock.cli.mcp.client import ConnectOptions, connect_mcp
from penstock.cli.mcp.servers import HttpServer
from penstock.cli.mcp.tasks import TaskFollower, TaskState
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

EXTENSION = "io.modelcontextprotocol/tasks"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        for document in ALL:
            running.call("POST", "workflows", {"document": document})
        yield running


TAKES_TASKS: dict[str, Any] = {"extensions": {EXTENSION: {}}, "elicitation": {}}


def ask(
    server: LiveServer,
    method: str,
    *,
    header: str | None = None,
    key: str | None = None,
    declared: dict[str, Any] = TAKES_TASKS,
    path: str = "/mcp",
    **params: Any,
) -> Any:
    """One request of the newest era, from a client that takes tasks unless told; the answer with its status."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": declared,
    }
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Accept": "application/json, text/event-stream",
    }
    named = header or params.get("name") or params.get("taskId")
    if named:
        headers["Mcp-Name"] = named
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    answer = server.request("POST", path, body, headers=headers, key=key)
    return {"status": answer.status, **json.loads(answer.body)}


def task(server: LiveServer, name: str, **arguments: Any) -> Any:
    made = ask(server, "tools/call", name=name, arguments=arguments)["result"]
    assert made["resultType"] == "task"
    return made


def test_the_extension_is_told(server: LiveServer) -> None:
    told = ask(server, "server/discover")["result"]
    assert EXTENSION in told["capabilities"]["extensions"]


def test_what_is_done_at_once_is_no_task(server: LiveServer) -> None:
    result = ask(server, "tools/call", name="greet", arguments={"name": "Ada"})["result"]
    assert result["resultType"] == "complete"
    assert result["structuredContent"]["output"] == {"text": "Hello, Ada"}


def test_a_question_of_a_task_is_answered_once(server: LiveServer) -> None:
    made = task(server, "refund_order", order="A-1")
    assert (made["status"], made["ttlMs"]) == ("input_required", None)
    asked = ask(server, "tasks/get", taskId=made["taskId"])["result"]
    answers = {key: {"action": "accept", "content": {"approved": True}} for key in asked["inputRequests"]}
    for _ in range(2):
        done = ask(server, "tasks/update", taskId=made["taskId"], inputResponses=answers)["result"]
        assert done["resultType"] == "complete"
    ended = server.call("GET", f"executions/{made['taskId']}/wait?wait_seconds=240")
    assert ended["status"] == "completed"
    result = ask(server, "tasks/get", taskId=made["taskId"])["result"]
    assert result["status"] == "completed"
    assert result["result"]["structuredContent"]["output"]["approved"] is True


def test_a_task_is_cancelled_and_stays_so(server: LiveServer) -> None:
    made = task(server, "nap")
    assert made["status"] == "working"
    for _ in range(2):
        assert ask(server, "tasks/cancel", taskId=made["taskId"])["result"]["resultType"] == "complete"
    server.call("GET", f"executions/{made['taskId']}/wait?wait_seconds=240")
    assert ask(server, "tasks/get", taskId=made["taskId"])["result"]["status"] == "cancelled"


def test_what_a_caller_may_not_see_is_unknown(server: LiveServer) -> None:
    made = task(server, "nap")
    blind = server.call("POST", "keys", {"name": "blind", "scopes": ["workflow:read"]})["secret"]
    hidden = ask(server, "tasks/get", taskId=made["taskId"], key=blind)
    unknown = ask(server, "tasks/get", taskId="r_nothing", key=server.key)
    assert hidden["error"] == unknown["error"]
    assert unknown["error"]["code"] == -32602


def test_the_header_must_name_the_task(server: LiveServer) -> None:
    made = task(server, "nap")
    refused = ask(server, "tasks/get", header="another", taskId=made["taskId"])
    assert (refused["status"], refused["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_who_does_not_declare_the_extension_hears_what_is_missing(server: LiveServer, method: str) -> None:
    refused = ask(server, method, declared={}, taskId="r_nothing")
    assert (refused["status"], refused["error"]["code"]) == (400, -32021)
    assert refused["error"]["data"]["requiredCapabilities"] == {"extensions": {EXTENSION: {}}}


def test_what_answers_no_question_is_acknowledged_and_changes_nothing(server: LiveServer) -> None:
    made = task(server, "refund_order", order="A-3")
    unknown = {"another": {"ignored": True}, "question": {"approved": True}}
    assert (
        ask(server, "tasks/update", taskId=made["taskId"], inputResponses=unknown)["result"]["resultType"] == "complete"
    )
    assert ask(server, "tasks/get", taskId=made["taskId"])["result"]["status"] == "input_required"


def test_methods_of_older_drafts_are_not_there(server: LiveServer) -> None:
    for method in ("tasks/list", "tasks/result"):
        assert ask(server, method)["error"]["code"] == -32601


@pytest.mark.anyio
async def test_a_client_s_task_completes_after_a_power_failure_when_it_is_answered_elsewhere(
    server: LiveServer,
) -> None:
    asked = asyncio.Event()
    states: list[TaskState] = []

    async def never_answers(context: Any, params: Any) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    manners = ConnectOptions(
        ask=never_answers, extensions=(TaskFollower(states.append, asks=True),), patience_seconds=SECONDS_MAX
    )
    place = HttpServer(url=f"{server.url}/mcp", headers={"Authorization": f"Bearer {server.key}"})
    async with connect_mcp(place, manners) as client:
        call = asyncio.ensure_future(client.call_tool("refund_order", {"order": "A-2"}))
        await asyncio.wait_for(asked.wait(), SECONDS_MAX)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        answers = f"executions/{states[0].task_id}/answers"
        await asyncio.to_thread(server.call, "POST", answers, {"answer": {"approved": False}})
        result = await asyncio.wait_for(call, SECONDS_MAX)
    assert result.structured_content["output"]["approved"] is False
    assert {state.task_id for state in states} == {states[0].task_id}
    assert [states[0].status, states[-1].status] == ["input_required", "completed"]

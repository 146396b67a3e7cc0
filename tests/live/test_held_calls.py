"""A call that waits, on a real server: held over MCP and REST, approved wherever people are, made once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.live.mcp.clients import ERAS, connected, text_of
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.office import ERASE
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with a dangerous workflow."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        running.call("POST", "workflows", {"document": ERASE})
        yield running


@pytest.fixture(scope="module")
def robot(server: LiveServer) -> str:
    """The key of an agent."""
    made = server.call("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})
    secret: str = made["secret"]
    return secret


def runs(server: LiveServer) -> int:
    return len(server.call("GET", "workflows/erase_customer/executions?limit=500")["items"])


def held_over_rest(server: LiveServer, robot: str, **headers: str) -> dict[str, Any]:
    body = {"input": {"customer": "C-1"}}
    answer = server.request("POST", "workflows/erase_customer/executions", body, key=robot, headers=headers)
    assert answer.status == 202, answer
    held: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/api/v0/drafts/{held['held']['draft_id']}"
    return held


@eras
async def test_a_model_is_told_what_waits_for_whom_until_when_and_how_to_look(
    server: LiveServer, robot: str, era: str
) -> None:
    before = runs(server)
    async with connected(server, era, key=robot) as client:
        result = await client.call_tool("erase_customer", {"customer": "C-7"})
        structured = result.structured_content
        text = text_of(result)
        assert (result.is_error, structured["status"]) == (False, "waiting_approval")
        draft_id = structured["held"]["draft_id"]
        assert structured["held"]["digest"] in text
        assert "approvers" in text
        assert structured["questions"][0]["expires_at"] in text
        refused = await client.call_tool("penstock_execution_answer", {"execution_id": draft_id, "answer": {}})
        assert "PERSON_REQUIRED" in text_of(refused)
    assert runs(server) == before
    made = server.call("POST", f"drafts/{draft_id}/approve", {})
    assert (made["status"], made["result"]) == ("executed", {"erased": "C-7"})
    assert runs(server) == before + 1
    async with connected(server, era, key=robot) as client:
        waited = await client.call_tool("penstock_execution_wait", {"execution_id": draft_id})
        assert waited.structured_content["output"] == {"erased": "C-7"}


@eras
async def test_a_person_approves_in_a_form_of_their_client(server: LiveServer, era: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approved": True})

    before = runs(server)
    async with connected(server, era, elicitation_callback=answer) as client:
        result = await client.call_tool("erase_customer", {"customer": "C-8"})
    assert len(asked) == 1
    assert "May a model" in asked[0]
    assert '"customer": "C-8"' in asked[0]
    assert result.structured_content["output"] == {"erased": "C-8"}
    assert runs(server) == before + 1


async def test_an_agent_is_not_asked_to_approve_its_own_call(server: LiveServer, robot: str) -> None:
    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approved": True})

    before = runs(server)
    async with connected(server, "legacy", key=robot, elicitation_callback=answer) as client:
        result = await client.call_tool("erase_customer", {"customer": "C-8"})
    assert result.structured_content["status"] == "waiting_approval"
    assert runs(server) == before


def test_a_held_call_is_answered_with_202_and_where_to_look(server: LiveServer, robot: str) -> None:
    held = held_over_rest(server, robot, **{"Penstock-Justification": "they asked for it"})
    draft = server.call("GET", f"drafts/{held['held']['draft_id']}")
    assert (draft["status"], draft["justification"]) == ("waiting", "they asked for it")
    assert draft["operation"] == "workflow.execute"
    assert held["held"]["draft_id"] in [item["id"] for item in server.call("GET", "drafts?status=open")["items"]]
    bad = server.request("POST", "workflows/x/executions", {}, key=robot, headers={"Penstock-Draft": "maybe"})
    assert (bad.status, bad.json()["code"]) == (422, "INVALID_ARGUMENTS")


def looked_at(server: LiveServer, operation: str, arguments: dict[str, Any], key: str | None = None) -> str:
    seen = server.call("POST", "preflights", {"operation": operation, "arguments": arguments}, key=key)
    handle: str = seen["preflight_id"]
    return handle


def test_the_preflight_header_is_heeded_under_the_default_preset(server: LiveServer) -> None:
    arguments = {"workflow_id": "erase_customer", "input": {"customer": "C-3"}}
    before = runs(server)

    def start(handle: str, customer: str) -> Any:
        headers, body = {"Penstock-Preflight": handle}, {"input": {"customer": customer}}
        return server.request("POST", "workflows/erase_customer/executions", body, headers=headers)

    handle = looked_at(server, "workflow.execute", arguments)
    other = start(handle, "C-4")
    assert (other.status, other.json()["code"]) == (422, "PREFLIGHT_MISMATCH")
    used = start(handle, "C-3")
    assert (used.status, used.json()["code"]) == (422, "PREFLIGHT_NOT_FOUND")
    assert runs(server) == before
    assert start(looked_at(server, "workflow.execute", arguments), "C-3").status == 202
    assert runs(server) == before + 1
    read = server.request("GET", "workflows", headers={"Penstock-Preflight": handle})
    assert (read.status, read.json()["code"]) == (422, "PREFLIGHT_NOT_NEEDED")


@eras
async def test_the_preflight_of_the_metadata_is_heeded_too(server: LiveServer, robot: str, era: str) -> None:
    before = server.call("GET", "drafts?limit=500")["items"]
    handle = looked_at(server, "workflow:erase_customer", {"customer": "C-5"}, key=robot)
    async with connected(server, era, key=robot) as client:
        meta: Any = {"penstock/preflight": handle}
        for customer, code in (("C-6", "PREFLIGHT_MISMATCH"), ("C-5", "PREFLIGHT_NOT_FOUND")):
            refused = await client.call_tool("erase_customer", {"customer": customer}, meta=meta)
            assert refused.is_error
            assert code in text_of(refused)
        for _ in range(2):  # also where a read is answered without the SDK
            refused = await client.call_tool("penstock_execution_status", {"execution_id": "x"}, meta=meta)
            assert "PREFLIGHT_NOT_NEEDED" in text_of(refused)
        assert server.call("GET", "drafts?limit=500")["items"] == before
        meta = {"penstock/preflight": looked_at(server, "workflow:erase_customer", {"customer": "C-5"}, key=robot)}
        held = await client.call_tool("erase_customer", {"customer": "C-5"}, meta=meta)
        assert held.structured_content["status"] == "waiting_approval"


def test_looking_answers_nothing(server: LiveServer, robot: str) -> None:
    draft_id = held_over_rest(server, robot)["held"]["draft_id"]
    for path in (f"drafts/{draft_id}/approve", f"executions/{draft_id}/answers"):
        assert server.request("GET", path).status == 405
    assert server.call("GET", f"drafts/{draft_id}")["status"] == "waiting"


SPYING: tuple[tuple[str, str, Any], ...] = (
    ("GET", "executions/{}", None),
    ("GET", "executions/{}/history", None),
    ("GET", "executions/{}/stream", None),
    ("GET", "executions/{}/wait?wait_seconds=1", None),
    ("POST", "executions/{}/query", {"expression": "."}),
    ("POST", "executions/{}/cancel", {}),
    ("POST", "executions/{}/pause", {}),
    ("POST", "executions/{}/retry", {}),
    ("POST", "executions/{}/fork", {"at_sequence": 2}),
    ("POST", "executions/{}/signals", {"name": "paid"}),
    ("POST", "executions/{}/answers", {"answer": {"approved": True}}),
    ("DELETE", "executions/{}", None),
    ("POST", "control/workflow_status", {"execution_id": "{}"}),
    ("POST", "control/workflow_cancel", {"execution_id": "{}"}),
    ("GET", "drafts/{}", None),
    ("GET", "/v1/runs/{}", None),
    ("GET", "/v1/runs/{}/events", None),
    ("GET", "/v1/runs/{}/events/poll", None),
    ("POST", "/v1/runs/{}/cancel", {}),
    ("POST", "/v1/runs/{}:pause", {}),
    ("POST", "/v1/runs/{}/interrupts/approve", {"resumeValue": {"approved": True}}),
)


@pytest.fixture(scope="module")
def spy(server: LiveServer) -> str:
    """The key of another agent."""
    made = server.call("POST", "keys", {"name": "spy", "kind": "agent", "scopes": ["*"]})
    secret: str = made["secret"]
    return secret


def test_another_agent_reaches_a_held_call_over_no_http_route(server: LiveServer, robot: str, spy: str) -> None:
    draft_id = held_over_rest(server, robot)["held"]["draft_id"]
    before = server.call("GET", f"executions/{draft_id}/history")
    for method, path, body in SPYING:
        sent = {"execution_id": draft_id} if body == {"execution_id": "{}"} else body
        refused = server.request(method, path.format(draft_id), sent, key=spy)
        assert refused.status == 404, (method, path, refused)
        assert "C-1" not in str(refused.body)
        # The agent that made the call gets an answer there, so the routes are real.
        if method == "GET" and "stream" not in path and not path.endswith("/events"):
            assert server.request(method, path.format(draft_id), key=robot).status == 200, path
    assert server.call("GET", f"executions/{draft_id}/history") == before


@eras
async def test_another_agent_reaches_a_held_call_over_no_mcp_tool(
    server: LiveServer, robot: str, spy: str, era: str
) -> None:
    draft_id = held_over_rest(server, robot)["held"]["draft_id"]
    before = server.call("GET", f"executions/{draft_id}/history")
    tools: tuple[tuple[str, dict[str, Any]], ...] = (
        ("execution_status", {}),
        ("execution_wait", {}),
        ("execution_history", {}),
        ("execution_cancel", {}),
        ("execution_signal", {"name": "paid"}),
        ("execution_answer", {"answer": {"approved": True}}),
        ("execution_retry", {}),
        ("execution_fork", {"at_sequence": 2}),
        ("execution_delete", {}),
    )
    async with connected(server, era, key=spy, toolset="all") as client:
        for tool, more in tools:
            refused = await client.call_tool(f"penstock_{tool}", {"execution_id": draft_id, **more})
            assert refused.is_error, tool
            assert "EXECUTION_NOT_FOUND" in text_of(refused), tool
        with pytest.raises(MCPError):
            await client.read_resource(f"penstock://executions/{draft_id}")
    assert server.call("GET", f"executions/{draft_id}/history") == before


def test_the_command_line_shows_and_approves(server: LiveServer, robot: str) -> None:
    draft_id = held_over_rest(server, robot)["held"]["draft_id"]
    before = runs(server)

    def penstock(*words: str) -> str:
        command = [sys.executable, "-m", "penstock", *words, "--server", server.url]
        environment = {**os.environ, "PENSTOCK_API_KEY": server.key}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=server.folder, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "workflow.execute" in penstock("approval", "get", draft_id)
    assert "executed" in penstock("approval", "approve", draft_id, "--note", "fine")
    assert runs(server) == before + 1


def test_a_held_call_that_is_killed_after_its_approval_is_made_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    script = """
import os, runpy, signal, sys
from penstock.operations.drafts import making

make = making.make_held_call

async def die(gate, run_id):
    if not os.path.exists("died"):
        open("died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return await make(gate, run_id)

making.make_held_call = die
sys.argv = ["penstock", *sys.argv[1:]]
runpy.run_module("penstock", run_name="__main__")
"""
    with serving(tmp_path_factory.mktemp("killed"), script=script) as server:
        server.call("POST", "workflows", {"document": ERASE})
        robot = server.call("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})["secret"]
        draft_id = held_over_rest(server, robot)["held"]["draft_id"]
        once = {"Idempotency-Key": "approve-once"}
        with suppress(OSError, HTTPException):
            server.request("POST", f"drafts/{draft_id}/approve", {}, headers=once)
        server.running.wait(SECONDS_MAX)
        server.start()
        answers = [server.request("POST", f"drafts/{draft_id}/approve", {}, headers=once) for _ in range(2)]
        assert [(answer.status, answer.json()["status"]) for answer in answers] == [(200, "executed")] * 2
        assert answers[0].body == answers[1].body
        assert answers[0].headers["idempotency-replayed"] == "true"
        ended = server.call("GET", f"executions/{draft_id}/wait?wait_seconds=240")
        assert ended["status"] == "completed"
        assert runs(server) == 1

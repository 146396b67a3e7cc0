"""Agents on a real server that is killed: what waits for a person goes on when somebody answers on another surface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.model_server import Asked, ModelServer, Says, model_server
from tests.live.mcp.clients import connected, text_of
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX, wait_until


def workflow(name: str, **more: Any) -> dict[str, Any]:
    return {
        "penstock": "v1",
        "name": name,
        "input": {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}},
        "expose": {"tool": True},
        "nodes": [{"id": "done", "type": "end", "output": {"done": "${ .input.order }"}}],
        **more,
    }


def agent(name: str, tool: Any) -> dict[str, Any]:
    block = {"model": "fast", "instructions": "Help.", "tools": [tool], "ask_user": True}
    return {"penstock": "v1", "name": name, "agent": block, "expose": {"tool": True}}


DOCUMENTS = (
    workflow("refund"),
    workflow("erase", governance={"risk": "high"}),
    agent("refunds", {"tool": "workflow:refund", "approvers": {"group": "leads"}}),
    agent("erases", "workflow:erase"),
)


def says(asked: Asked) -> Says:
    """Call the tool that is offered, and say what it returned; or why it did not."""
    returned = [message for message in asked.body["messages"] if message["role"] == "tool"]
    if not returned:
        tool = next(item["function"]["name"] for item in asked.body["tools"] if item["function"]["name"] != "ask_user")
        return Says("", calls=((tool, {"order": "A-1"}),))
    return Says(f"It said {returned[-1]['content']}")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server(otherwise=says) as running:
        yield running


@pytest.fixture(scope="module")
def server(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("agents")
    fast = {"provider": "openai-compatible", "model": "tiny", "base_url": model.url}
    (folder / "penstock.yaml").write_text(json.dumps({"models": {"fast": fast}}), encoding="utf-8")
    with serving(folder) as running:
        for document in DOCUMENTS:
            running.call("POST", "workflows", {"document": document})
        yield running


def key(server: LiveServer, name: str, kind: str, *scopes: str) -> str:
    made = server.call("POST", "keys", {"name": name, "kind": kind, "scopes": list(scopes)})
    return str(made["secret"])


def runs(server: LiveServer, workflow_id: str) -> int:
    return len(server.call("GET", f"executions?workflow_id={workflow_id}")["items"])


def status(server: LiveServer, execution_id: str) -> str:
    return str(server.call("GET", f"executions/{execution_id}")["status"])


def begin_over_mcp(server: LiveServer, secret: str, name: str, path: Path) -> str:
    """Let an assistant call an agent as a tool; return the id of the execution that waits."""

    async def call() -> None:
        async with connected(server, "legacy", key=secret) as client:
            answer = await client.call_tool(name, {"prompt": f"Do it for {path.name}."})
            assert not answer.is_error, text_of(answer)

    asyncio.run(asyncio.wait_for(call(), SECONDS_MAX))
    [newest, *_] = server.call("GET", f"executions?workflow_id={name}")["items"]
    return str(newest["execution_id"])


def test_the_approval_of_a_call_is_answered_over_rest_after_a_crash(
    server: LiveServer, model: ModelServer, tmp_path: Path
) -> None:
    robot = key(server, "robot", "agent", "*")
    lead = key(server, "lead", "person", "execution:*", "approve:leads")
    execution_id = begin_over_mcp(server, robot, "refunds", tmp_path)
    assert status(server, execution_id) == "waiting_approval"
    turns = len(model.asked)
    server.kill()
    server.start()

    async def by_model() -> str:
        async with connected(server, "legacy", key=robot, toolset="all") as client:
            given = {"execution_id": execution_id, "answer": {"approved": True}}
            return text_of(await client.call_tool("penstock_execution_answer", given))

    assert "PERSON_REQUIRED" in asyncio.run(asyncio.wait_for(by_model(), SECONDS_MAX))
    assert (status(server, execution_id), runs(server, "refund")) == ("waiting_approval", 0)
    server.call("POST", f"executions/{execution_id}/answers", {"answer": {"approved": True}}, key=lead)
    ended = server.call("GET", f"executions/{execution_id}/wait?wait_seconds=240")
    assert ended["status"] == "completed"
    assert "A-1" in ended["output"]["text"]
    assert (len(model.asked) - turns, runs(server, "refund")) == (1, 1)


def test_a_held_call_of_an_agent_is_approved_over_rest_after_a_crash(server: LiveServer, model: ModelServer) -> None:
    ada = key(server, "ada", "person", "draft:*", "approve:approvers")
    begun = server.call("POST", "workflows/erases/executions", {"input": {"prompt": "Erase."}})
    execution_id = begun["execution_id"]

    def drafts() -> Any:
        return [item["id"] for item in server.call("GET", "drafts?status=open", key=ada)["items"]]

    wait_until(drafts)
    [draft_id] = drafts()
    turns = len(model.asked)
    server.kill()
    server.start()
    assert (status(server, execution_id), runs(server, "erase")) == ("waiting_activity", 0)
    server.call("POST", f"drafts/{draft_id}/approve", {}, key=ada)
    ended = server.call("GET", f"executions/{execution_id}/wait?wait_seconds=240")
    assert ended["status"] == "completed"
    assert (len(model.asked) - turns, runs(server, "erase")) == (1, 1)

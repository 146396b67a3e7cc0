"""`penstock mcp` over a real pipe: on a file and in front of a server, in both eras and for clients that mix them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.live.mcp.clients import ERAS, list_roots, sample, text_of
from tests.live.mcp.workflows import ALL, GREET, LEARN
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the workflows as files."""
    for document in ALL:
        (tmp_path / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        for document in ALL:
            running.call("POST", "workflows", {"document": document})
        yield running


def local_command() -> list[str]:
    return [*piped_command("mcp", "--db", "penstock.db", "--workflows", ".")]


@asynccontextmanager
async def piped(command: list[str], era: str, folder: Path, **more: Any) -> AsyncIterator[Client]:
    environment = more.pop("env", {})
    parameters = StdioServerParameters(
        command=command[0], args=command[1:], cwd=str(folder), env={**os.environ, **environment}
    )
    async with Client(parameters, mode=era, **more) as client:
        yield client


@eras
async def test_a_workflow_is_called_over_the_pipe(folder: Path, era: str) -> None:
    async with piped(local_command(), era, folder) as client:
        assert "greet" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("greet", {"name": "Ada"})
    assert result.structured_content["output"] == {"text": "Hello, Ada"}


@eras
async def test_the_person_the_model_and_the_client_answer_over_the_pipe(folder: Path, era: str) -> None:
    (folder / "learn.json").write_text(json.dumps(LEARN), encoding="utf-8")

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approved": True})

    callbacks = {"elicitation_callback": answer, "sampling_callback": sample, "list_roots_callback": list_roots}
    async with piped(local_command(), era, folder, **callbacks) as client:
        result = await client.call_tool("refund_order", {"order": "A-1"})
        learnt = await client.call_tool("learn")
    assert result.structured_content["output"]["approved"] is True
    assert learnt.structured_content["output"] == {"what": "Paris", "where": "file:///home/ada"}


@eras
async def test_a_pipe_can_lead_to_a_server(server: LiveServer, tmp_path: Path, era: str) -> None:
    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approved": True})

    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    command = [*piped_command("mcp", "--server", server.url)]
    environment = {"PENSTOCK_API_KEY": server.key}
    async with piped(command, era, tmp_path, env=environment, elicitation_callback=answer) as client:
        assert "Hello, Ada" in text_of(await client.call_tool("greet", {"name": "Ada"}, progress_callback=hear))
        asked = await client.call_tool("refund_order", {"order": "A-1"})
        assert asked.structured_content["output"]["approved"] is True
    assert heard


async def test_the_pipe_to_a_server_keeps_its_streams_and_its_tools(
    streaming_server: LiveServer, tmp_path: Path
) -> None:
    changed = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    # The address has a query already, and the server closes the stream of a call before its answer.
    command = [*piped_command("mcp", "--server", f"{streaming_server.url}/?a=b")]
    environment = {"PENSTOCK_API_KEY": streaming_server.key}
    more: dict[str, Any] = {"env": environment, "message_handler": hear}
    async with piped([*command, "--toolset", "nap,later_tool"], "legacy", tmp_path, **more) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["nap"]
        result = await client.call_tool("nap", {})
        assert result.structured_content["status"] in ("pending", "running", "waiting_timer")
        later = {**GREET, "name": "later_tool"}
        await asyncio.to_thread(streaming_server.call, "POST", "workflows", {"document": later})
        await asyncio.wait_for(changed.wait(), SECONDS_MAX)
        assert [tool.name for tool in (await client.list_tools()).tools] == ["later_tool", "nap"]
    streaming_server.call("DELETE", "workflows/later_tool")


def test_a_client_may_look_first_and_then_shake_hands(folder: Path) -> None:
    requests: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": "look", "method": "server/discover", "params": {"_meta": _META}},
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "greet", "arguments": {"name": "A"}}},
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "tools/call",
            "params": {"name": "greet", "arguments": {"name": "B"}, "_meta": _META},
        },
    ]
    with subprocess.Popen(
        local_command(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers: dict[Any, Any] = {}
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            if "id" in request:
                answer = json.loads(process.stdout.readline())
                answers[answer["id"]] = answer
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0
    assert "2026-07-28" in answers["look"]["result"]["supportedVersions"]
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[2]["result"]["structuredContent"]["output"] == {"text": "Hello, A"}
    assert answers[3]["result"]["structuredContent"]["output"] == {"text": "Hello, B"}


def test_a_signal_ends_it_while_it_waits_for_a_line(folder: Path) -> None:
    with subprocess.Popen(
        local_command(), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) is not None

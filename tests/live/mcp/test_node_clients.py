"""Clients that others wrote: that of the TypeScript SDK and the Inspector, in both eras, on a real server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mcp_suite.node import node_programs
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

CLIENT = Path(__file__).with_name("typescript_client.mjs")
TASKS = Path(__file__).with_name("typescript_tasks.mjs")
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@pytest.fixture(scope="module")
def server(plain_server: LiveServer) -> LiveServer:
    """A server with the workflows."""
    return plain_server


def typescript(script: Path, *arguments: str, key: str = "", folder: Path | None = None) -> Any:
    """What a client in TypeScript got."""
    programs = node_programs()
    done = subprocess.run(
        [programs.command, str(script), str(programs.modules), *arguments],
        cwd=folder,
        env={**os.environ, "PENSTOCK_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_everything(got: Any, era: str) -> None:
    """That the client could list, call, ask the person, read and prompt."""
    assert (got["version"], got["server"]["name"]) == (VERSIONS[era], "penstock")
    assert {"greet", "refund_order", "stumble"} <= set(got["tools"])
    assert got["greeted"]["structuredContent"]["output"] == {"text": "Hello, Ada"}
    assert got["progress"]
    assert got["asked"] == ["May I refund this order?"]
    assert got["refunded"]["structuredContent"]["output"] == {"approved": True, "reason": "it is late"}
    assert got["stumbled"]["isError"] is True
    assert got["unknown"] == -32602
    assert "penstock://workflows/greet" in got["resources"]
    assert json.loads(got["read"]["text"])["id"] == "greet"
    assert "greet" in got["prompts"]
    assert "Ada" in got["prompt"]["content"]["text"]


@pytest.mark.parametrize("era", VERSIONS)
def test_the_typescript_client_over_http(server: LiveServer, era: str) -> None:
    check_everything(typescript(CLIENT, era, f"{server.url}/mcp", key=server.key), era)


def test_the_typescript_client_over_a_pipe(tmp_path: Path) -> None:
    for document in ALL:
        (tmp_path / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    command = piped_command("mcp", "--db", "penstock.db", "--workflows", ".")
    check_everything(typescript(CLIENT, "auto", "-", *command, folder=tmp_path), "auto")


def test_the_authors_own_package_follows_a_task_and_answers_its_question(server: LiveServer) -> None:
    got = typescript(TASKS, f"{server.url}/mcp", key=server.key)
    assert [question["params"]["message"] for question in got["asked"]] == ["May I refund this order?"]
    assert got["methods"][0] == "tools/call"
    assert {"tasks/get", "tasks/update"} <= set(got["methods"])
    assert got["result"]["structuredContent"]["output"] == {"approved": True}


def inspect(
    server: LiveServer, era: str, *options: str, path: str = "/mcp", transport: str = "http", code: int = 0
) -> Any:
    """What the command line of the Inspector got; it must end with a code."""
    address = [f"{server.url}{path}", "--transport", transport, "--protocol-era", era]
    key = ["--header", f"Authorization: Bearer {server.key}"]
    done = subprocess.run(
        node_programs().run(INSPECTOR, "--cli", *address, *key, *options, "--format", "json"),
        env={**os.environ, "HOME": str(server.folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)["result"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_lists_calls_and_reads(server: LiveServer, era: str) -> None:
    # `--strict` ends with another code if a schema is one that some client cannot take.
    listed = inspect(server, era, "--method", "tools/list", "--strict", path="/mcp?toolset=all")
    assert "greet" in [tool["name"] for tool in listed["tools"]]
    called = inspect(server, era, "--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada")
    assert called["structuredContent"]["output"] == {"text": "Hello, Ada"}
    read = inspect(server, era, "--method", "resources/read", "--uri", "penstock://workflows/greet")
    assert json.loads(read["contents"][0]["text"])["id"] == "greet"


def test_the_inspector_ends_with_the_code_for_an_error_of_a_tool(server: LiveServer) -> None:
    failed = inspect(server, "auto", "--method", "tools/call", "--tool-name", "stumble", code=5)
    assert failed["isError"] is True


def test_the_inspector_speaks_the_oldest_transport(streaming_server: LiveServer) -> None:
    call = ("--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada")
    called = inspect(streaming_server, "legacy", *call, path="/mcp/sse", transport="sse")
    assert called["structuredContent"]["output"] == {"text": "Hello, Ada"}

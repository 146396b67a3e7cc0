"""Clients that hang up in the middle of a call: what was stored is carried on, by a server and over a pipe."""

from __future__ import annotations

import json
import random
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

BOTH = "application/json, text/event-stream"
HANG_UP_SECONDS_MAX = 0.03
CALLS = 60
STEPS = """
import penstock

@penstock.step(name="work")
def work() -> dict:
    return {"done": True}
"""
TOOL = {"tool": True}
WORK: dict[str, Any] = {
    "penstock": "v1",
    "name": "work",
    "expose": TOOL,
    "nodes": [
        {"id": "first", "type": "step", "handler": "work"},
        {"id": "second", "type": "step", "handler": "work"},
        {"id": "done", "type": "end", "output": "done"},
    ],
}
APPROVE: dict[str, Any] = {
    "penstock": "v1",
    "name": "approve",
    "expose": TOOL,
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "ok?",
            "answer": {"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}},
        },
        {"id": "after", "type": "step", "handler": "work"},
        {"id": "done", "type": "end", "output": "done"},
    ],
}
NAP: dict[str, Any] = {
    "penstock": "v1",
    "name": "nap",
    "expose": TOOL,
    "nodes": [{"id": "sleep", "type": "wait", "duration": "3s"}, {"id": "done", "type": "end", "output": "awake"}],
}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "steps.py").write_text(STEPS, encoding="utf-8")
    with serving(folder, "--steps", "steps.py") as running:
        for document in (WORK, APPROVE):
            running.call("POST", "workflows", {"document": document})
        yield running


def drop(server: LiveServer, path: str, body: Any, headers: dict[str, str], seconds: float) -> None:
    """Send a request and hang up a moment later."""
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {server.key}"]
    lines += ["Content-Type: application/json", f"Accept: {BOTH}"]
    lines += [f"Content-Length: {len(content)}", *(f"{name}: {value}" for name, value in headers.items())]
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + content)
        select.select([connection], [], [], seconds)


def modern(method: str, **params: Any) -> tuple[dict[str, str], dict[str, Any]]:
    named = str(params.get("name") or params.get("taskId"))
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": named}
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": _META, **params}}


def legacy(name: str) -> tuple[dict[str, str], dict[str, Any]]:
    """A call of the handshake era in a session that the server does not know, which is served without one."""
    headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "from-before"}
    params = {"name": name, "arguments": {}}
    return headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def dropped_at_once(server: LiveServer, requests: list[tuple[str, dict[str, str], Any]]) -> None:
    chance = random.Random(7)
    moments = [chance.uniform(0, HANG_UP_SECONDS_MAX) for _ in requests]

    def leave(request: tuple[str, dict[str, str], Any], seconds: float) -> None:
        path, headers, body = request
        drop(server, path, body, headers, seconds)

    with ThreadPoolExecutor(12) as callers:
        list(callers.map(leave, requests, moments))


def unfinished(server: LiveServer, workflow: str, ended: tuple[str, ...]) -> list[dict[str, Any]]:
    found = server.call("GET", f"workflows/{workflow}/executions?limit=500")["items"]
    return [item for item in found if item["status"] not in ended]


def settled(server: LiveServer, workflow: str, ended: tuple[str, ...]) -> list[dict[str, Any]]:
    """What has not come to rest after a while."""
    until = time.monotonic() + SECONDS_MAX
    while (left := unfinished(server, workflow, ended)) and time.monotonic() < until:
        server.call("GET", f"executions/{left[0]['execution_id']}/wait?wait_seconds=5")
    return left


def test_callers_that_hang_up_leave_no_run_unperformed(server: LiveServer) -> None:
    requests: list[tuple[str, dict[str, str], Any]] = []
    for _ in range(CALLS):
        requests.append(("/api/v0/workflows/work/executions", {}, {"input": {}}))
        requests.append(("/mcp", *modern("tools/call", name="work", arguments={})))
        requests.append(("/mcp", *legacy("work")))
    dropped_at_once(server, requests)
    assert settled(server, "work", ("completed",)) == []
    assert len(server.call("GET", "workflows/work/executions?limit=500")["items"]) > CALLS


def test_answers_of_callers_that_hang_up_are_acted_on(server: LiveServer) -> None:
    started = [server.call("POST", "workflows/approve/executions", {"input": {}}) for _ in range(CALLS)]
    ids = [str(item["execution_id"]) for item in started]
    assert settled(server, "approve", ("waiting_input", "waiting_approval")) == []
    requests: list[tuple[str, dict[str, str], Any]] = []
    for number, execution_id in enumerate(ids):
        if number % 2:
            requests.append((f"/api/v0/executions/{execution_id}/answers", {}, {"answer": {"approved": True}}))
            continue
        headers, body = modern("tasks/get", taskId=execution_id)
        asked = server.request("POST", "/mcp", body, headers={**headers, "Accept": BOTH}).json()
        answers = {key: {"action": "accept", "content": {"approved": True}} for key in asked["result"]["inputRequests"]}
        requests.append(("/mcp", *modern("tasks/update", taskId=execution_id, inputResponses=answers)))
    dropped_at_once(server, requests)
    rest = settled(server, "approve", ("completed", "waiting_input", "waiting_approval"))
    assert rest == []
    histories = {name: server.call("GET", f"executions/{name}/history?limit=100")["items"] for name in ids}
    recorded = {name for name, items in histories.items() if any(item["name"] == "ResumeInterrupt" for item in items)}
    assert len(recorded) > CALLS / 4
    assert {item["execution_id"] for item in unfinished(server, "approve", ("completed",))}.isdisjoint(recorded)


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_a_pipe_that_closes_in_the_middle_of_a_call_leaves_the_run_to_the_next_start(tmp_path: Path, era: str) -> None:
    (tmp_path / "nap.json").write_text(json.dumps(NAP), encoding="utf-8")
    command = piped_command("mcp", "--db", "penstock.db", "--workflows", ".")
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in opening(era):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        line = b""
        while b"notifications/progress" not in line:  # the run has begun
            line = process.stdout.readline()
            assert line
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0
    with serving(tmp_path) as server:
        assert settled(server, "nap", ("completed", "cancelled", "failed")) == []
        runs = server.call("GET", "workflows/nap/executions")["items"]
        assert [item["status"] for item in runs] == ["completed"]


def opening(era: str) -> list[dict[str, Any]]:
    """What a client says until it calls the tool."""
    params: dict[str, Any] = {"name": "nap", "arguments": {}, "_meta": {"progressToken": 1}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    if era == "2026-07-28":
        capabilities: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {}}
        params["_meta"] = {**_META, **capabilities, "progressToken": 1}
        return [call]
    hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call,
    ]

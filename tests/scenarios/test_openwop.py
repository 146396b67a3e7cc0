"""The OpenWOP wire: roots, approvals, keys of questions, versions, and questions of other servers to its clients."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.executors.mcp.config import command_name
from tests.live.mcp.workflows import ASK, BIG
from tests.live.rest.servers import Answer, LiveServer, serving

PACK = "core.openwop.mcp."
UPSTREAM = Path(__file__).parents[1] / "fixtures" / "upstream_server.py"
SETTINGS: dict[str, Any] = {
    "mcpServers": {"shop": {"command": sys.executable, "args": [str(UPSTREAM)]}},
    "mcp_allow_commands": [command_name(sys.executable)],
}
ANSWER = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
PAYS: dict[str, Any] = {
    "penstock": "v1",
    "name": "pays",
    "expose": {"tool": True},
    "nodes": [
        {"id": "ask", "type": "interrupt", "message": "Pay?", "answer": ANSWER, "approvers": {"group": "leads"}},
        {"id": "done", "type": "end", "output": "${ .ask }"},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server in which tests may put workflows, and which knows another MCP server."""
    folder = tmp_path_factory.mktemp("openwop")
    (folder / "penstock.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    with serving(folder, PENSTOCK_SERVER_OPENWOP_SEAM="true") as running:
        for document in (PAYS, ASK, BIG):
            running.call("POST", "workflows", {"document": document})
        yield running


def asked(server: LiveServer, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
    """What the mount answers to a plain request."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    more = {"Accept": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return server.request("POST", "/v1/mcp", body, headers=more).json()


def current(server: LiveServer, name: str) -> Any:
    """What the mount answers to a call in the current revision by a client that can be asked."""
    about = "io.modelcontextprotocol/"
    meta = {
        f"{about}protocolVersion": "2026-07-28",
        f"{about}clientCapabilities": {"elicitation": {"form": {}}},
        f"{about}clientInfo": {"name": "suite", "version": "1"},
    }
    headers = {
        "Accept": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    params = {"name": name, "arguments": {}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    return server.request("POST", "/v1/mcp", body, headers=headers).json()["result"]


def until(server: LiveServer, run_id: str, is_there: Callable[[Any], bool]) -> Any:
    """A run once it is as it should be; the server tells when it moves."""
    sequence = 0
    for _ in range(50):
        run = server.call("GET", f"/v1/runs/{run_id}")
        if is_there(run):
            return run
        moved = server.call("GET", f"executions/{run_id}/wait?wait_seconds=5&after_sequence={sequence}")
        sequence = moved["sequence"]
    raise AssertionError(f"{run_id} is not there yet")


def seeded(server: LiveServer, workflow_id: str, kind: str, **config: Any) -> Answer:
    node = {"nodeId": "n0", "typeId": PACK + kind, "config": config}
    return server.request("POST", "/v1/host/sample/workflows", {"workflowId": workflow_id, "nodes": [node]})


def test_a_workflow_provides_the_roots(server: LiveServer) -> None:
    assert asked(server, "roots/list")["error"]["code"] == -32601
    roots = [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv"}]
    assert seeded(server, "mcp.scenario.roots", "provide-roots", roots=roots).status == 201
    assert asked(server, "roots/list")["result"]["roots"] == roots
    wrong = seeded(server, "mcp.scenario.wrong", "provide-roots", roots=[{"name": "nowhere"}])
    assert (wrong.status, "uri" in wrong.json()["message"]) == (400, True)


def test_both_transports_are_claimed(server: LiveServer) -> None:
    mount = server.call("GET", "/.well-known/openwop")["mcp"]["serverMount"]
    assert mount["transports"] == ["stdio", "streamable-http"]


def test_a_run_that_waits_for_an_approval_says_so(server: LiveServer) -> None:
    run_id = server.call("POST", "/v1/runs", {"workflowId": "pays"})["runId"]
    run = until(server, run_id, lambda run: run["status"].startswith("waiting-"))
    assert (run["status"], run["currentNodeId"]) == ("waiting-approval", "ask")
    events = server.call("GET", f"/v1/runs/{run_id}/events/poll")["events"]
    kinds = [event["payload"]["kind"] for event in events if event["type"] == "interrupt.requested"]
    assert kinds == ["approval"]
    plain = asked(server, "tools/call", {"name": "pays", "arguments": {}})["result"]
    assert (plain["isError"], plain["_meta"]["openwop/tag"]) == (True, "waiting-approval")
    other = server.call("POST", "/v1/runs", {"workflowId": "refund"})["runId"]
    assert until(server, other, lambda run: run["status"].startswith("waiting-"))["status"] == "waiting-input"


def test_the_questions_of_two_runs_have_different_keys(server: LiveServer) -> None:
    first, second = (current(server, "refund_order") for _ in range(2))
    assert first["resultType"] == second["resultType"] == "input_required"
    assert not set(first["inputRequests"]) & set(second["inputRequests"])


def test_another_version_of_the_wire_is_refused(server: LiveServer) -> None:
    body = {"workflowId": "big"}
    for version, status in (("1.0", 201), ("1.7", 201), ("2.0", 400), ("x", 400)):
        answer = server.request("POST", "/v1/runs", body, headers={"OpenWOP-Version": version})
        assert answer.status == status, version
        if status == 201:
            assert answer.headers["openwop-version"] == "1.0"
        else:
            assert answer.json()["error"] == "protocol_version_unsupported"
            assert answer.json()["details"]["supported"] == ["1.0"]


def test_a_plain_request_is_answered_in_the_blocks_of_its_revision(server: LiveServer) -> None:
    call = {"name": "big", "arguments": {}}
    new = asked(server, "tools/call", call)["result"]
    old = asked(server, "tools/call", call, MCP_Protocol_Version="2025-03-26")["result"]
    assert [block["type"] for block in new["content"]] == ["text", "resource_link"]
    assert [block["type"] for block in old["content"]] == ["text", "text"]


def test_the_question_of_another_server_is_answered_on_the_wire_and_brought_back_to_it(server: LiveServer) -> None:
    assert seeded(server, "mcp.scenario.order", "invoke-tool", serverId="shop", toolName="order").status == 201
    [named] = [item["id"] for item in server.call("GET", "workflows")["items"] if "order" in item["id"]]
    run_id = server.call("POST", "/v1/runs", {"workflowId": named, "inputs": {"item": "tea"}})["runId"]
    run = until(server, run_id, lambda run: run["status"] == "waiting-input")
    events = server.call("GET", f"/v1/runs/{run_id}/events/poll")["events"]
    [question] = [event["payload"] for event in events if event["type"] == "interrupt.requested"]
    assert "Really order tea?" in question["data"]["prompt"]
    assert question["metadata"]["mcp"]["inputRequestKey"]
    place = f"/v1/runs/{run_id}/interrupts/{run['currentNodeId']}"
    server.call("POST", place, {"resumeValue": {"confirmed": True}})
    ended = until(server, run_id, lambda run: run["status"] in ("completed", "failed"))
    assert ended["status"] == "completed", ended
    assert "ordered tea" in json.dumps(ended["variables"]["output"])

"""The six scenarios of the OpenWOP suite for hosts that are MCP servers: their requests, and what they assert.

Nothing is skipped here: a claim that is absent is a failure, and so is a mount that is not found. Behind them stand the
stronger ones for the current revision, which the same mount serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.live.mcp.clients import ERAS
from tests.live.rest.servers import Answer, LiveServer, serving
from tests.waiting import SECONDS_MAX

_PACK = "core.openwop.mcp."
_SEAM = "/v1/host/sample/workflows"
_STRICT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
_MODELS = "models:\n  mock:\n    provider: mock\n    replies: {'*': pong}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with a model, in which tests may put workflows."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "penstock.yaml").write_text(_MODELS, encoding="utf-8")
    with serving(folder, PENSTOCK_SERVER_OPENWOP_SEAM="true") as running:
        yield running


class Suite:
    """Asks as the suite does: JSON only, no handshake, no session, no version."""

    def __init__(self, server: LiveServer) -> None:
        self.server = server
        found = server.request("GET", "/.well-known/openwop", headers={"Accept": "application/json"})
        assert found.status == 200
        self.mcp: dict[str, Any] = found.json()["mcp"]
        self.mount = next(url for url in self.mcp["serverUrls"] if url)

    def seed(self, workflow_id: str, *nodes: dict[str, Any], edges: list[dict[str, str]] | None = None) -> Answer:
        placed = [{"nodeId": f"n{number}", **node} for number, node in enumerate(nodes)]
        body = {"workflowId": workflow_id, "nodes": placed, **({"edges": edges} if edges else {})}
        return self.server.request("POST", _SEAM, body, headers={"Accept": "application/json"})

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}
        answer = self.server.request("POST", self.mount, body, headers={"Accept": "application/json"})
        assert answer.status == 200, answer
        assert answer.media_type == "application/json"
        found: dict[str, Any] = answer.json()
        assert (found["jsonrpc"], found["id"]) == ("2.0", 7)
        return found


@pytest.fixture(scope="module")
def suite(server: LiveServer) -> Suite:
    return Suite(server)


def node(kind: str, **config: Any) -> dict[str, Any]:
    return {"typeId": _PACK + kind, **({"config": config} if config else {})}


def seeded_tool(suite: Suite, name: str) -> str:
    tool = node("expose-tool", name=name, description="Says it again.", inputSchema=_STRICT)
    answer = suite.seed(f"mcp.scenario.{name}", tool)
    assert answer.status in (200, 201), answer
    assert answer.json()["workflowId"] == f"mcp.scenario.{name}"
    assert answer.json()["nodeCount"] == 1
    return name


def test_the_mount_is_claimed_as_the_wire_has_it(suite: Suite) -> None:
    assert suite.mcp == {
        "supported": True,
        "serverUrls": ["/v1/mcp", "/mcp"],
        "protocolVersions": ["2026-07-28"],
        "preferredVersion": "2026-07-28",
        "profiles": ["mcp-2026-07-28"],
        "features": ["server-discover", "mrtr", "cacheable-lists", "extensions"],
        "serverMount": {
            "supported": True,
            "transports": ["stdio", "streamable-http"],
            "samplingBridge": True,
            "elicitationBridge": True,
        },
    }


def test_tool_roundtrip(suite: Suite) -> None:
    name = seeded_tool(suite, "roundtrip_1")
    assert isinstance(suite.mcp["serverMount"]["supported"], bool)
    assert name in [tool["name"] for tool in suite.ask("tools/list")["result"]["tools"]]
    result = suite.ask("tools/call", {"name": name, "arguments": {"text": "hello"}})["result"]
    assert isinstance(result["content"], list)
    assert result["isError"] is False
    assert result["structuredContent"]["output"] == {"text": "hello"}


def test_resource_roundtrip(suite: Suite) -> None:
    uri = "mcp://test/1789000000-ab12"
    seeded = suite.seed("mcp.scenario.res", node("expose-resource", uri=uri, name="A note", mimeType="text/plain"))
    assert seeded.status in (200, 201), seeded
    assert uri in [item["uri"] for item in suite.ask("resources/list")["result"]["resources"]]
    [content] = suite.ask("resources/read", {"uri": uri})["result"]["contents"]
    assert (content["uri"], content["mimeType"], content["text"]) == (uri, "text/plain", "A note")


def test_prompt_roundtrip(suite: Suite) -> None:
    arguments = [{"name": "topic", "description": "What it is about.", "required": False}]
    prompt = node("expose-prompt", name="scenario_prompt", description="Asks.", arguments=arguments)
    assert suite.seed("mcp.scenario.prompt", prompt).status in (200, 201)
    listed = {item["name"]: item for item in suite.ask("prompts/list")["result"]["prompts"]}
    assert listed["scenario_prompt"]["arguments"][0]["name"] == "topic"
    got = suite.ask("prompts/get", {"name": "scenario_prompt", "arguments": {"topic": "weather"}})
    assert isinstance(got["result"]["messages"], list)


def test_sampling_bridge(suite: Suite) -> None:
    assert suite.mcp["serverMount"]["samplingBridge"] is True
    assert suite.seed("mcp.scenario.sampling", node("handle-sampling")).status in (200, 201)
    messages = [{"role": "user", "content": {"type": "text", "text": "ping"}}]
    result = suite.ask("sampling/createMessage", {"messages": messages, "maxTokens": 16})["result"]
    assert (result["role"], result["content"]) == ("assistant", {"type": "text", "text": "pong"})
    assert result["model"]
    assert result["stopReason"] == "endTurn"


def test_elicitation_bridge(suite: Suite) -> None:
    assert suite.mcp["serverMount"]["elicitationBridge"] is True
    assert suite.seed("mcp.scenario.elicit", node("handle-elicitation")).status in (200, 201)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asked = {"message": "Your name?", "requestedSchema": schema, "_meta": {"penstock/idempotency_key": "who-1"}}
    first = suite.ask("elicitation/create", asked)["result"]
    assert first["action"] == "pending"
    run_id = first["_meta"]["penstock/execution_id"]
    snapshot = suite.server.call("GET", f"/v1/runs/{run_id}")
    assert snapshot["status"] == "waiting-input"
    wrong = suite.server.request(
        "POST", f"/v1/runs/{run_id}/interrupts/{snapshot['currentNodeId']}", {"resumeValue": {"name": 1}}
    )
    assert wrong.status == 400
    suite.server.call(
        "POST", f"/v1/runs/{run_id}/interrupts/{snapshot['currentNodeId']}", {"resumeValue": {"name": "Ada"}}
    )
    suite.server.call("GET", f"executions/{run_id}/wait?wait_seconds=240")
    again = suite.ask("elicitation/create", asked)["result"]
    assert (again["action"], again["content"]) == ("accept", {"name": "Ada"})
    assert again["_meta"]["penstock/execution_id"] == run_id


def test_untrusted_args(suite: Suite) -> None:
    name = seeded_tool(suite, "strict_1")
    listed = suite.server.call("GET", "executions?limit=500")["items"]
    error = suite.ask("tools/call", {"name": name, "arguments": {"wrongField": "no"}})["error"]
    assert error["code"] == -32602
    assert {item["keyword"] for item in error["data"]["errors"]} == {"required", "additionalProperties"}
    assert len(suite.server.call("GET", "executions?limit=500")["items"]) == len(listed)
    good = suite.ask("tools/call", {"name": name, "arguments": {"text": "hello"}})
    assert "error" not in good
    assert good["result"]["isError"] is False
    assert suite.ask("tools/call", {"name": name, "arguments": "not-an-object"})["error"]["code"] == -32602


_CURRENT = "2026-07-28"
_ABOUT = "io.modelcontextprotocol/"


def current(
    suite: Suite,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    named: str | None = None,
    more: dict[str, str] | None = None,
) -> Answer:
    """A request of the current revision, as the suite makes it: headers and envelope, and JSON only."""
    envelope = {
        f"{_ABOUT}protocolVersion": _CURRENT,
        f"{_ABOUT}clientInfo": {"name": "suite", "version": "1"},
        f"{_ABOUT}clientCapabilities": {"elicitation": {"form": {}}},
    }
    headers = {"Accept": "application/json", "MCP-Protocol-Version": _CURRENT, "Mcp-Method": method, **(more or {})}
    if named is not None:
        headers["Mcp-Name"] = named
    body = {"jsonrpc": "2.0", "id": 9, "method": method, "params": {**(params or {}), "_meta": envelope}}
    return suite.server.request("POST", suite.mount, body, headers=headers)


def test_what_discover_says_is_what_is_claimed(suite: Suite) -> None:
    answer = current(suite, "server/discover")
    assert (answer.status, answer.media_type) == (200, "application/json")
    result = answer.json()["result"]
    assert result["supportedVersions"] == suite.mcp["protocolVersions"]
    assert result["resultType"] == "complete"
    assert result["ttlMs"] >= 0
    assert "mcp-session-id" not in answer.headers


def test_the_current_revision_is_served_at_the_mount_without_a_session(suite: Suite) -> None:
    name = seeded_tool(suite, "stateless_1")
    listed = current(suite, "tools/list").json()["result"]
    assert listed["cacheScope"] == "private"
    names = [tool["name"] for tool in listed["tools"]]
    assert name in names
    assert names == sorted(names)
    called = current(suite, "tools/call", {"name": name, "arguments": {"text": "hello"}}, named=name)
    assert called.json()["result"]["structuredContent"]["output"] == {"text": "hello"}
    mismatch = current(suite, "tools/list", more={"Mcp-Method": "tools/call"})
    assert (mismatch.status, mismatch.json()["error"]["code"]) == (400, -32020)
    unknown = current(suite, "tools/list", more={"MCP-Protocol-Version": "2031-01-01"})
    assert unknown.status == 400
    assert current(suite, "nothing/here").status == 404


def test_mrtr_roundtrip(suite: Suite) -> None:
    question = {"message": "Go on?", "requestedSchema": {**_STRICT, "required": ["text"]}}
    edges = [{"edgeId": "e1", "sourceNodeId": "n0", "targetNodeId": "n1"}]
    tool = node("expose-tool", name="asks_1", inputSchema={"type": "object"})
    assert suite.seed("mcp.scenario.asks", tool, node("handle-elicitation", **question), edges=edges).status == 201
    first = current(suite, "tools/call", {"name": "asks_1", "arguments": {}}, named="asks_1").json()["result"]
    assert first["resultType"] == "input_required"
    [(key, request)] = first["inputRequests"].items()
    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == "Go on?"
    assert isinstance(first["requestState"], str)
    answers = {key: {"action": "accept", "content": {"text": "yes"}}}

    def retried(state: str) -> Any:
        params = {"name": "asks_1", "arguments": {}, "inputResponses": answers, "requestState": state}
        return current(suite, "tools/call", params, named="asks_1").json()

    assert "error" in retried("forged")
    assert "error" in retried(first["requestState"] + "x")
    done = retried(first["requestState"])["result"]
    assert done["resultType"] == "complete"
    assert done["structuredContent"]["output"] == {"text": "yes"}
    assert "error" in retried(first["requestState"])


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_clients_that_speak_mcp_are_served_at_the_mount_too(server: LiveServer, suite: Suite, era: str) -> None:
    name = seeded_tool(suite, "sdk_1")
    headers = {"Authorization": f"Bearer {server.key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS_MAX) as http:
        transport = streamable_http_client(f"{server.url}/v1/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            assert name in [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool(name, {"text": "hello"})
    assert result.structured_content["output"] == {"text": "hello"}


def test_anonymous_is_not_let_in(suite: Suite) -> None:
    for headers in ({"Accept": "application/json"}, {"MCP-Protocol-Version": _CURRENT, "Cookie": "session=minted"}):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answer = suite.server.request("POST", suite.mount, body, headers=headers, key="")
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_an_approval_is_given_in_the_form_of_a_client_and_not_by_a_call(suite: Suite) -> None:
    answer = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    question = {"id": "ask", "type": "interrupt", "message": "Pay?", "answer": answer, "approvers": {"group": "leads"}}
    nodes = [question, {"id": "done", "type": "end", "output": "${ .ask }"}]
    document = {"penstock": "v1", "name": "pays", "expose": {"tool": True}, "nodes": nodes}
    suite.server.call("POST", "workflows", {"document": document})
    first = current(suite, "tools/call", {"name": "pays", "arguments": {}}, named="pays").json()["result"]
    assert first["resultType"] == "input_required"
    [key] = first["inputRequests"]
    [run] = suite.server.call("GET", "workflows/pays/executions")["items"]
    given = {"execution_id": run["execution_id"], "answer": {"ok": True}}
    refused = suite.ask("tools/call", {"name": "penstock_execution_answer", "arguments": given})["result"]
    assert refused["_meta"]["penstock/error"]["code"] == "PERSON_REQUIRED"
    filled = {key: {"action": "accept", "content": {"ok": True}}}
    retry = {"name": "pays", "arguments": {}, "inputResponses": filled, "requestState": first["requestState"]}
    done = current(suite, "tools/call", retry, named="pays").json()["result"]
    assert done["structuredContent"]["output"] == {"ok": True}


def test_a_question_of_a_client_outlives_the_server(suite: Suite) -> None:
    server = suite.server
    assert suite.seed("mcp.scenario.elicit", node("handle-elicitation")).status in (200, 201)
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
    asked = {"message": "Which size?", "requestedSchema": schema, "_meta": {"penstock/idempotency_key": "size-1"}}
    run_id = suite.ask("elicitation/create", asked)["result"]["_meta"]["penstock/execution_id"]
    server.kill()
    server.start()
    assert suite.ask("elicitation/create", asked)["result"]["action"] == "pending"
    server.call("POST", f"executions/{run_id}/answers", {"answer": {"size": 7}})
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=240")
    again = suite.ask("elicitation/create", asked)["result"]
    assert (again["action"], again["content"]) == ("accept", {"size": 7})
    runs = [item["execution_id"] for item in server.call("GET", "executions?limit=500")["items"]]
    assert runs.count(run_id) == 1

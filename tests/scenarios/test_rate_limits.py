"""Too many calls are refused with status 429 and the time to wait, on every surface of a real server.

Each test has a key of its own, so that nothing that others do counts.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.live.mcp.broken_messages import META
from tests.live.rest.servers import Answer, LiveServer, serving
from tests.waiting import SECONDS_MAX

# Bursts of a single call: the second one at once is too many.
FEW = {
    "PENSTOCK_LIMITS_READ_PER_MINUTE": "6",
    "PENSTOCK_LIMITS_WRITE_PER_MINUTE": "6",
}
MODERN, LEGACY = "2026-07-28", "2025-06-18"
BOTH = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "penstock": "v1",
    "name": "hello",
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": "hello"}],
}


class Caller:
    """Somebody with a key, over REST and MCP."""

    def __init__(self, server: LiveServer, key: str) -> None:
        self._server = server
        self.key = key

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self._server.request(method, path, body, headers=headers, key=self.key)

    def post(self, path: str, body: Any, headers: dict[str, str]) -> Answer:
        return self._server.request("POST", path, body, headers=headers, key=self.key)

    def modern(self, method: str, **params: Any) -> Answer:
        named = {"Mcp-Name": params["name"]} if "name" in params else {}
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": META}}
        headers = {**BOTH, "MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named}
        return self.post("/mcp?toolset=all", body, headers)

    def legacy(self, method: str, **params: Any) -> Answer:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        headers = {**BOTH, "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": "0" * 32}
        return self.post("/mcp?toolset=all", body, headers)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("limited")
    (folder / "hello.json").write_text(json.dumps(HELLO), encoding="utf-8")
    with serving(folder, "--workflows", "hello.json", **FEW) as found:
        yield found


@pytest.fixture
def caller(server: LiveServer) -> Caller:
    made = server.call("POST", "keys", {"name": "limited", "scopes": ["*"]})
    return Caller(server, made["secret"])


def assert_limited(answer: Answer) -> dict[str, Any]:
    """The answer has status 429 and says when to come back; return its JSON."""
    assert answer.status == 429, answer
    assert int(answer.headers["retry-after"]) >= 1
    found: dict[str, Any] = answer.json()
    return found


def assert_limited_message(answer: Answer) -> None:
    found = assert_limited(answer)
    assert found["id"] == 7
    data = found["error"]["data"]
    assert data["code"] == "RATE_LIMITED"
    assert data["retry_after_seconds"] == int(answer.headers["retry-after"])


def test_rest_says_when_to_come_back(caller: Caller) -> None:
    assert caller("GET", "workflows").status == 200
    problem = assert_limited(caller("GET", "executions"))
    assert (problem["code"], problem["details"]["limit"]) == ("RATE_LIMITED", "principal")
    assert caller("DELETE", "workflows/nothing").status == 404
    assert_limited(caller("DELETE", "workflows/nothing"))


def test_openwop_says_when_to_come_back(caller: Caller) -> None:
    assert caller("POST", "/v1/runs", {"workflowId": "hello"}).status == 201
    found = assert_limited(caller("POST", "/v1/runs", {"workflowId": "hello"}))
    assert found["error"] == "rate_limited"
    assert found["details"]["retryAfterMs"] >= 1_000


def test_forged_addresses_change_nothing(caller: Caller) -> None:
    assert caller("GET", "workflows").status == 200
    for number in range(5):
        forged = {"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}", "X-Real-IP": "::1"}
        assert_limited(caller("GET", "workflows", None, **forged))


@pytest.mark.parametrize("method", ["tools/list", "resources/templates/list", "prompts/list", "server/discover"])
def test_lists_count_over_mcp(caller: Caller, method: str) -> None:
    assert caller.modern(method).status == 200
    assert_limited_message(caller.modern(method))
    assert_limited_message(caller.modern("tools/list"))


@pytest.mark.parametrize("method", ["tools/list", "ping"])
def test_lists_count_over_mcp_in_the_handshake_era(caller: Caller, method: str) -> None:
    assert caller.legacy(method).status == 200
    assert_limited_message(caller.legacy(method))


READ = {"name": "penstock_workflow_list", "arguments": {}}
WRITE = {"name": "penstock_workflow_delete", "arguments": {"workflow_id": "nothing"}}


@pytest.mark.parametrize("call", [READ, WRITE, {"name": "hello", "arguments": {}}], ids=["read", "write", "workflow"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_tool_calls_are_refused_with_a_status(caller: Caller, era: str, call: dict[str, Any]) -> None:
    post = caller.modern if era == "modern" else caller.legacy
    assert post("tools/call", **call).status == 200
    assert_limited_message(post("tools/call", **call))


def test_a_look_at_a_task_is_refused_with_a_status(caller: Caller) -> None:
    assert caller.modern("tools/call", **READ).status == 200
    assert_limited_message(caller.modern("tools/call", **READ))
    assert_limited_message(caller.modern("tasks/get", taskId="nothing", name="nothing"))


def test_an_unknown_tool_counts(caller: Caller) -> None:
    unknown = {"name": "no_such_tool", "arguments": {}}
    assert caller.modern("tools/call", **unknown).json()["error"]["code"] == -32602
    assert_limited_message(caller.modern("tools/call", **unknown))


def test_a_message_in_a_batch_has_the_time_to_wait_in_its_error(caller: Caller) -> None:
    batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(3)]
    headers = {**BOTH, "MCP-Protocol-Version": "2025-03-26", "Mcp-Session-Id": "0" * 32}
    answer = caller.post("/mcp", batch, headers)
    lines = [line.removeprefix("data: ") for line in answer.body.decode().splitlines() if line.startswith("data: {")]
    found = [json.loads(line) for line in lines]
    refused = [item["error"]["data"] for item in found if "error" in item]
    assert len(refused) == 2
    assert all(item["retry_after_seconds"] >= 1 and item["code"] == "RATE_LIMITED" for item in refused)


def test_calls_that_are_refused_count_too(server: LiveServer) -> None:
    """Whoever may never do something cannot ask for it at any rate."""
    made = server.call("POST", "keys", {"name": "weak", "scopes": ["audit:read"]})
    weak = Caller(server, made["secret"])
    assert weak("DELETE", "workflows/hello").json()["code"] == "SCOPE_REQUIRED"
    assert assert_limited(weak("DELETE", "workflows/hello"))["code"] == "RATE_LIMITED"


def test_malformed_requests_leave_less_for_others(caller: Caller) -> None:
    assert caller("GET", "workflows?nothing=1").status == 422
    assert_limited(caller("GET", "workflows"))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with bursts of two requests for strangers, and of one wrong key."""
    few = {"PENSTOCK_LIMITS_UNAUTHENTICATED_PER_MINUTE": "12", "PENSTOCK_LIMITS_FAILED_LOGINS_PER_MINUTE": "6"}
    with serving(tmp_path_factory.mktemp("strict"), **few) as found:
        yield found


def sent_from(server: LiveServer, address: str, path: str, key: str = "", **headers: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer to a request from an address of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_MAX, source_address=(address, 0))
    named = {**({"Authorization": f"Bearer {key}"} if key else {}), **headers}
    with closing(connection):
        connection.request("POST" if path in ("/mcp", "/v1/runs") else "GET", path, b"{}", named)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}


PATHS = ["/api/v0/workflows", "/mcp", "/v1/runs", "/metrics", "/nothing/here", "/openapi.json"]


@pytest.mark.parametrize(("number", "path"), list(enumerate(PATHS)))
def test_strangers_are_limited_by_their_address_everywhere(strict: LiveServer, number: int, path: str) -> None:
    address = f"127.0.3.{number + 1}"
    statuses = [sent_from(strict, address, path)[0] for _ in range(2)]
    assert 429 not in statuses
    status, headers = sent_from(strict, address, path, **{"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=1.2.3.4"})
    assert status == 429
    assert int(headers["retry-after"]) >= 1
    # Probes of a load balancer and whoever has a key are let in.
    assert sent_from(strict, address, "/healthz")[0] == 200
    assert sent_from(strict, address, "/api/v0/info", strict.key)[0] == 200
    assert sent_from(strict, f"127.0.4.{number + 1}", path)[0] != 429


@pytest.mark.parametrize(("number", "path"), list(enumerate(PATHS[:4])))
def test_wrong_keys_are_limited_by_their_address_and_right_ones_are_not(
    strict: LiveServer, number: int, path: str
) -> None:
    address, wrong = f"127.0.5.{number + 1}", "pen_aaaaaaaaaaaa_" + "x" * 43
    assert sent_from(strict, address, path, wrong)[0] == 401
    for _ in range(3):
        status, headers = sent_from(strict, address, path, wrong)
        assert status == 429
        assert int(headers["retry-after"]) >= 1
    made = strict.call("POST", "keys", {"name": "late", "scopes": ["*"]})
    assert sent_from(strict, address, "/api/v0/info", made["secret"])[0] == 200


def test_a_webhook_with_wrong_signatures_is_limited(strict: LiveServer) -> None:
    statuses = [sent_from(strict, "127.0.6.1", "/hooks/nothing")[0] for _ in range(2)]
    assert statuses == [404, 429]


def test_the_audit_has_the_address_of_the_peer_and_not_what_it_claims(strict: LiveServer) -> None:
    forged = {"X-Forwarded-For": "203.0.113.77", "Forwarded": "for=203.0.113.77", "X-Real-IP": "203.0.113.77"}
    assert sent_from(strict, "127.0.7.1", "/api/v0/audit", strict.key, **forged)[0] == 200
    assert strict.request("DELETE", "workflows/nothing", headers=forged).status == 404
    records = strict.call("GET", "audit?limit=100")
    assert "203.0.113.77" not in json.dumps(records)
    assert "127.0.0.1" in json.dumps(records)

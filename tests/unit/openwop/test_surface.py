"""MCP on the OpenWOP wire: what is claimed, what is answered, and who is let in."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from penstock.app.serving.server import ServerOptions
from penstock.app.settings.model import OpenwopSettings, ServerSettings, Settings
from penstock.app.settings.rules import settings_problems
from penstock.mcp_surface.options import McpOptions
from penstock.operations.gate.context import HoldChoices
from tests.live.mcp.workflows import ALL
from tests.unit.rest.conftest import Answered, Client, opened
from tests.waiting import until_found

pytestmark = pytest.mark.anyio
MOUNT = "/v1/mcp"
SEAM = "/v1/host/sample/workflows"
TOOL = {"typeId": "core.openwop.mcp.expose-tool", "nodeId": "tool", "config": {"name": "echo"}}
JSON = {"accept": "application/json", "host": "127.0.0.1"}


@asynccontextmanager
async def mounted(folder: Path, *, seam: bool = False, sampling: bool = False, **mcp: Any) -> AsyncIterator[Client]:
    """A server with the workflows of the MCP tests."""
    options = ServerOptions(mcp=McpOptions(patience_seconds=20, **mcp), openwop_seam=seam, openwop_sampling=sampling)
    async with opened(folder, options) as client:
        for document in ALL:
            assert (await client("POST", "workflows", {"document": document})).status == 201
        yield client


async def sent(client: Client, body: Any, **more: Any) -> Answered:
    return await client("POST", MOUNT, body, headers={**JSON, **more.pop("headers", {})}, **more)


async def asked(client: Client, method: str, params: Any = None, **more: Any) -> Any:
    """The answer to a request, whose status is always 200."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
    answer = await sent(client, body, **more)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), answer
    return answer.json()


async def test_methods_are_answered_without_a_handshake(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        assert (await asked(client, "ping"))["result"] == {}
        assert (await asked(client, "logging/setLevel", {"level": "info"}))["result"] == {}
        assert (await asked(client, "logging/setLevel", {"level": "loud"}))["error"]["code"] == -32602
        mistyped = (await asked(client, "logging/setLevel", {"level": "warn"}))["error"]
        assert mistyped["message"] == "level: unknown value `warn`; did you mean `warning`?"
        assert {"greet", "refund_order"} <= {
            tool["name"] for tool in (await asked(client, "tools/list"))["result"]["tools"]
        }
        templates = (await asked(client, "resources/templates/list"))["result"]["resourceTemplates"]
        assert "penstock://executions/{execution_id}" in [item["uriTemplate"] for item in templates]
        prompt = (await asked(client, "prompts/get", {"name": "greet", "arguments": {"name": "${ 1 }"}}))["result"]
        assert "${ 1 }" in prompt["messages"][0]["content"]["text"]
        about = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "tone", "value": "f"}}
        assert (await asked(client, "completion/complete", about))["result"]["completion"]["values"] == [
            "formal",
            "friendly",
        ]


async def test_a_handshake_is_answered_and_not_needed(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        for wanted, agreed in (("2025-03-26", "2025-03-26"), ("2031-01-01", "2025-06-18")):
            about = {"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            result = (await asked(client, "initialize", about))["result"]
            assert (result["protocolVersion"], result["serverInfo"]["name"]) == (agreed, "penstock")
        told = await sent(client, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (told.status, told.body) == (202, b"")


UNFIT: tuple[tuple[Any, int], ...] = (
    (b"{", -32700),
    (b"\xff", -32700),
    ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], -32600),
    ({"id": 1, "method": "ping"}, -32600),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
    ({"jsonrpc": "2.0", "id": 1}, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "arguments": []}}, -32602),
    (
        {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "greet", "arguments": {"a": 1}}},
        -32602,
    ),
    ({"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": {"ref": 1}}, -32602),
)


async def test_what_is_no_request_is_told_with_status_200(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions()) as client:
        for body, code in UNFIT:
            answer = await sent(client, body)
            assert (answer.status, answer.json()["error"]["code"]) == (200, code), body


VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    1.5,
    "",
    "x",
    [],
    {},
    [1],
    {"a": 1},
    "penstock://workflows/greet",
    {"type": "object"},
)
METHODS = (
    *("initialize", "tools/list", "tools/call", "resources/list", "resources/read", "prompts/get", "ping"),
    *("completion/complete", "logging/setLevel", "sampling/createMessage", "elicitation/create", "no/such"),
)
MEMBERS = (
    *("name", "arguments", "uri", "ref", "argument", "level", "messages", "message", "requestedSchema", "_meta"),
    *("systemPrompt", "maxTokens", "protocolVersion", "cursor"),
)


async def test_whatever_comes_is_answered_as_the_protocol_has_it(tmp_path: Path) -> None:
    chosen = random.Random(20260728)
    async with mounted(tmp_path, sampling=True) as client:
        for _ in range(300):
            params: Any = {member: chosen.choice(VALUES) for member in chosen.sample(MEMBERS, chosen.randrange(5))}
            body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": chosen.choice(METHODS), "params": params}
            if chosen.random() < 0.3:
                body[chosen.choice(list(body))] = chosen.choice(VALUES)
            answer = await sent(client, body)
            assert answer.status in (200, 202), body
            if answer.status == 200:
                told = answer.json()
                assert ("result" in told) != ("error" in told), body
                assert told.get("error", {}).get("code") != -32603, (body, told)


async def test_only_post_is_taken_and_only_so_much(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions(mcp=McpOptions(max_body_bytes=100))) as client:
        got = await client("GET", MOUNT, headers=JSON)
        assert (got.status, got.headers["allow"]) == (405, "POST")
        assert (await sent(client, b'{"jsonrpc": "2.0"' + b" " * 200 + b"}")).status == 413


async def test_who_has_no_key_is_told_how_to_show_one(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions()) as client:
        for key in ("", "psk_wrong"):
            answer = await sent(client, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, key=key)
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Bearer ")
            assert "result" not in answer.json()


async def new_key(client: Client, *scopes: str, **more: str) -> str:
    made = await client("POST", "keys", {"name": "somebody", "scopes": list(scopes), **more})
    return str(made.json()["secret"])


async def test_what_may_not_be_called_is_as_unknown_as_what_there_is_not(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        reader = await new_key(client, "workflow:read")
        foreign = await new_key(client, "*", tenant="other")
        for key in (reader, foreign):
            tools = (await asked(client, "tools/list", key=key))["result"]["tools"]
            assert "greet" not in [tool["name"] for tool in tools]
            refused = await asked(client, "tools/call", {"name": "greet", "arguments": {"name": "x"}}, key=key)
            unknown = await asked(client, "tools/call", {"name": "never", "arguments": {"name": "x"}}, key=key)
            assert refused["error"]["code"] == unknown["error"]["code"] == -32602
            assert refused["error"]["message"].replace("greet", "never") == unknown["error"]["message"]
        missing = [
            (await asked(client, "resources/read", {"uri": f"penstock://workflows/{name}"}, key=foreign))["error"]
            for name in ("greet", "never")
        ]
        assert str(missing[0]).replace("greet", "never") == str(missing[1])


async def test_the_states_of_a_run_are_projected(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        done = (await asked(client, "tools/call", {"name": "greet", "arguments": {"name": "Ada"}}))["result"]
        assert done["isError"] is False
        assert done["structuredContent"]["output"] == {"text": "Hello, Ada"}
        assert "resultType" not in done
        failed = (await asked(client, "tools/call", {"name": "stumble"}))["result"]
        assert failed["isError"] is True
        assert "it fell over" in failed["content"][0]["text"]
        waits = (await asked(client, "tools/call", {"name": "refund_order", "arguments": {"order": "7"}}))["result"]
        assert (waits["isError"], waits["_meta"]["openwop/tag"]) == (True, "waiting-input")
        run_id = waits["structuredContent"]["execution_id"]
        answered = await client("POST", f"/v1/runs/{run_id}/interrupts/question", {"resumeValue": {"approved": True}})
        assert answered.status == 200
        ended = await client("GET", f"executions/{run_id}/wait?wait_seconds=240")
        assert ended.json()["output"] == {"approved": True}


async def test_a_run_that_is_cancelled_meanwhile_says_so(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        calling = asyncio.ensure_future(asked(client, "tools/call", {"name": "nap"}))
        run_id = await begun(client, "nap")
        assert (await client("POST", f"/v1/runs/{run_id}/cancel", {"reason": "enough"})).status == 200
        result = (await calling)["result"]
        assert (result["isError"], result["_meta"]["openwop/tag"]) == (True, "tool_canceled")
        assert result["content"][0]["text"] == "tool_canceled"


async def begun(client: Client, workflow: str) -> str:
    """The id of the run of a workflow, once there is one that has begun."""

    async def look() -> str | None:
        items = (await client("GET", f"workflows/{workflow}/executions")).json()["items"]
        has_begun = items and items[0]["status"] not in ("pending", "running")
        return str(items[0]["execution_id"]) if has_begun else None

    return await until_found(look)


async def test_who_hangs_up_before_the_answer_leaves_the_run_behind(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        left = asyncio.Event()
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nap"}}'
        calling = asyncio.ensure_future(client.app(*hanging_up(client, body, left)))
        run_id = await begun(client, "nap")
        left.set()
        await calling
        assert (await client("GET", f"executions/{run_id}")).json()["status"] == "waiting_timer"
        history = (await client("GET", f"executions/{run_id}/history?limit=500")).json()["items"]
        assert "mcp-request-cancelled" not in str(history)


def hanging_up(
    client: Client, body: bytes, left: asyncio.Event
) -> tuple[dict[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]]:
    """A request whose client leaves when it is told to."""
    headers = {"authorization": f"Bearer {client.key}", "content-type": "application/json", **JSON}
    scope = {
        "type": "http",
        "method": "POST",
        "path": MOUNT,
        "raw_path": MOUNT.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5_000),
        "state": {},
    }
    waiting = [body]

    async def receive() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(f"nobody is there any more: {message}")

    return scope, receive, send


async def test_a_call_that_is_repeated_joins_the_run(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        params = {"name": "greet", "arguments": {"name": "Ada"}, "_meta": {"penstock/idempotency_key": "once-1"}}
        first, second = [(await asked(client, "tools/call", params))["result"] for _ in range(2)]
        assert first["structuredContent"]["execution_id"] == second["structuredContent"]["execution_id"]
        assert len((await client("GET", "workflows/greet/executions")).json()["items"]) == 1


async def test_requests_and_calls_are_counted(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        await asked(client, "tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
        await asked(client, "tools/call", {"name": "stumble"})
        await asked(client, "tools/call", {"name": "greet", "arguments": {}})
        await asked(client, "made/up")
        counted = (await client("GET", "/metrics")).body.decode()
        for line in (
            'penstock_mcp_requests_total{method="tools/call",status="ok"} 2',
            'penstock_mcp_requests_total{method="tools/call",status="error"} 1',
            'penstock_mcp_requests_total{method="unknown",status="error"} 1',
            'penstock_mcp_tool_calls_total{status="ok",tool_name="greet"} 1',
            'penstock_mcp_tool_calls_total{status="refused",tool_name="greet"} 1',
            'penstock_mcp_tool_calls_total{status="error",tool_name="stumble"} 1',
        ):
            assert line in counted.replace(".0\n", "\n"), line


async def test_without_mcp_nothing_is_claimed_nothing_is_served_and_packs_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions(mcp=McpOptions(enabled=False), openwop_seam=True)) as client:
        claim = (await client("GET", "/.well-known/openwop")).json()["mcp"]
        assert claim == {"supported": False, "serverUrls": [], "serverMount": {"supported": False}}
        assert (await sent(client, {"jsonrpc": "2.0", "id": 1, "method": "ping"})).status == 404
        refused = await client("POST", SEAM, {"workflowId": "a.b", "nodes": [TOOL]})
        assert refused.status == 422
        assert refused.json()["error"] == "pack_peer_dependency_missing"
        assert refused.json()["details"]["requiredCapability"] == "mcp.serverMount"
        assert refused.json()["details"]["offendingTypeId"] == TOOL["typeId"]


async def test_without_the_mount_only_the_endpoint_is_claimed(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions(openwop_mount=False)) as client:
        claim = (await client("GET", "/.well-known/openwop")).json()["mcp"]
        assert claim["serverUrls"] == ["/mcp"]
        assert claim["serverMount"]["samplingBridge"] is claim["serverMount"]["elicitationBridge"] is False
        assert (await sent(client, {"jsonrpc": "2.0", "id": 1, "method": "ping"})).status == 404


async def test_a_revision_that_is_offered_alone_is_claimed_alone(tmp_path: Path) -> None:
    for number, (only, urls, profile) in enumerate(
        (
            ("2026-07-28", ["/mcp"], "mcp-2026-07-28"),
            ("2025-06-18", ["/v1/mcp", "/mcp"], "mcp-2025-06-18-legacy"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with opened(folder, ServerOptions(mcp=McpOptions(protocol_version=only))) as client:
            claim = (await client("GET", "/.well-known/openwop")).json()["mcp"]
            assert (claim["serverUrls"], claim["profiles"]) == (urls, [profile])
            assert (claim["protocolVersions"], claim["preferredVersion"]) == ([only], only)
            answer = await sent(client, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert answer.status == (200 if len(urls) > 1 else 404)


async def test_the_bridges_are_closed_where_nothing_handles_them(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions(openwop_sampling=False)) as client:
        assert (await client("GET", "/.well-known/openwop")).json()["mcp"]["serverMount"]["samplingBridge"] is False
        message = {"role": "user", "content": {"type": "text", "text": "ping"}}
        for method, params in (
            ("sampling/createMessage", {"messages": [message], "maxTokens": 1}),
            (
                "elicitation/create",
                {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
            ),
        ):
            assert (await asked(client, method, params))["error"]["code"] == -32601


async def test_the_seam_is_off_unless_somebody_says_so_and_nobody_else_reaches_the_server(tmp_path: Path) -> None:
    seed = {"workflowId": "mcp.scenario.echo", "nodes": [TOOL]}
    for number, options in enumerate((ServerOptions(), ServerOptions(openwop_seam=True, host="0.0.0.0"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with opened(folder, options) as client:
            assert (await client("POST", SEAM, seed)).status == 404
    folder = tmp_path / "on"
    folder.mkdir()
    async with mounted(folder, seam=True) as client:
        assert (await client("POST", SEAM, seed, key="")).status == 401
        assert (await client("POST", SEAM, seed, key=await new_key(client, "workflow:run"))).status == 403
        made = await client("POST", SEAM, seed)
        assert (made.status, made.json()["nodeCount"]) == (201, 1)
        unknown = await client("POST", SEAM, {"workflowId": "x", "nodes": [{"nodeId": "a", "typeId": "core.other"}]})
        assert (unknown.status, unknown.json()["error"]) == (422, "capability_required")
        wrong = await client("POST", SEAM, {"workflowId": "x", "nodes": []})
        assert (wrong.status, wrong.json()["error"]) == (400, "validation_error")


def test_settings_with_a_seam_that_others_reach_are_refused() -> None:
    seam = OpenwopSettings(seam=True)
    assert not list(settings_problems(Settings(server=ServerSettings(openwop=seam))))
    [problem] = settings_problems(Settings(server=ServerSettings(host="0.0.0.0", openwop=seam)))
    assert problem.paths[0] == "server.openwop.seam"


STRANGE = [
    "penstock://workflows/../executions/x",
    "penstock://workflows/%2e%2e/executions",
    "penstock://workflows/greet%2f..%2fother",
    "penstock://workflows/greet%5C..",
    "penstock://workflows/greet\n",
    "penstock://user@workflows/greet",
    "penstock://workflows/greet?x=../..",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "javascript:alert(1)",
    "data:text/plain,hello",
    "http://127.0.0.1/latest/meta-data",
    "greet",
    "",
]


async def test_an_address_that_leads_elsewhere_is_none(tmp_path: Path) -> None:
    async with mounted(tmp_path) as client:
        for uri in STRANGE:
            found = await asked(client, "resources/read", {"uri": uri})
            assert found["error"]["code"] in (-32602, -32002), uri
        good = (await asked(client, "resources/read", {"uri": "penstock://workflows/greet"}))["result"]
        assert good["contents"][0]["mimeType"] == "application/json"


async def test_a_server_works_without_this_wire(tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions(openwop=False)) as client:
        for path in ("/.well-known/openwop", "/v1/openapi.json", "/v1/runs", MOUNT):
            assert (await client("GET", path)).json()["code"] == "ROUTE_NOT_FOUND"
        assert (await client("GET", "/healthz")).status == 200
        assert (await client("GET", "workflows")).status == 200


async def agent_key(client: Client) -> str:
    made = await client("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})
    secret: str = made.json()["secret"]
    return secret


async def test_a_workflow_that_an_agent_imports_waits_for_a_person_and_the_answer_says_so(tmp_path: Path) -> None:
    async with mounted(tmp_path, seam=True) as client:
        seed = {"workflowId": "seed.flow", "nodes": [TOOL]}
        answer = await client("POST", SEAM, seed, key=await agent_key(client))
        body = answer.json()
        assert (answer.status, body["status"]) == (202, "waiting-approval"), answer
        draft = (await client("GET", f"drafts/{body['draftId']}")).json()
        assert (draft["operation"], draft["status"]) == ("workflow.import", "waiting")
        assert (await client("GET", f"workflows/{body['id']}")).status == 404


async def test_a_change_that_has_to_wait_is_not_answered_as_if_it_were_made(tmp_path: Path) -> None:
    nodes = [{"id": "w", "type": "wait", "duration": "1h"}, {"id": "d", "type": "end"}]
    waits = {"penstock": "v1", "name": "waits", "nodes": nodes}
    async with opened(tmp_path, ServerOptions(holds=HoldChoices(preset="strict"))) as client:
        assert (await client("POST", "workflows", {"document": waits})).status == 201
        run = (await client("POST", "/v1/runs", {"workflowId": "waits"})).json()["runId"]
        key = await agent_key(client)
        for change in (f"/v1/runs/{run}:pause", f"/v1/runs/{run}/cancel"):
            answer = await client("POST", change, {}, key=key)
            assert answer.status == 403, answer
            assert "waits for approval" in answer.json()["message"]
        assert (await client("GET", f"/v1/runs/{run}")).json()["status"] == "running"


async def test_a_start_that_an_agent_has_to_wait_for_is_a_run_that_waits_for_approval(tmp_path: Path) -> None:
    risky = {"penstock": "v1", "name": "risky", "governance": {"risk": "high"}, "nodes": [{"id": "d", "type": "end"}]}
    async with mounted(tmp_path) as client:
        assert (await client("POST", "workflows", {"document": risky})).status == 201
        answer = await client("POST", "/v1/runs", {"workflowId": "risky"}, key=await agent_key(client))
        assert (answer.status, answer.json()["status"]) == (201, "waiting-approval"), answer

"""Without a workflow's scope nobody starts it, whatever surface they come by; with the scope each of them does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.mcp_surface.options import McpOptions
from tests.unit.rest.conftest import HELLO, Answered, Client, opened

pytestmark = pytest.mark.anyio
SCOPE = "shop:refund"
REFUND = {**HELLO, "name": "refund", "governance": {"scopes": [SCOPE]}, "expose": {"tool": True}}
RIGHTS = ["workflow:*", "execution:*"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def rest(client: Client, key: str) -> Answered:
    return await client("POST", "workflows/refund/executions", {"input": {}}, key=key)


async def control_plane(client: Client, key: str) -> Answered:
    return await client("POST", "control/workflow_start", {"definition": REFUND, "input": {}}, key=key)


async def openwop(client: Client, key: str) -> Answered:
    return await client("POST", "/v1/runs", {"workflowId": "refund", "inputs": {}}, key=key)


async def _tool(client: Client, key: str, name: str, arguments: dict[str, Any]) -> Answered:
    params = {"name": name, "arguments": arguments, "_meta": META}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name, "host": "127.0.0.1"}
    headers["accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await client("POST", "/mcp?toolset=all", body, headers=headers, key=key)


async def mcp_tool(client: Client, key: str) -> Answered:
    return await _tool(client, key, "refund", {})


async def mcp_operation(client: Client, key: str) -> Answered:
    return await _tool(client, key, "penstock_workflow_execute", {"workflow_id": "refund"})


async def openwop_mcp(client: Client, key: str) -> Answered:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "refund", "arguments": {}}}
    return await client("POST", "/v1/mcp", body, headers={"accept": "application/json", "host": "127.0.0.1"}, key=key)


SURFACES = {
    rest: (403, "SCOPE_REQUIRED"),
    control_plane: (403, "SCOPE_REQUIRED"),
    openwop: (403, SCOPE),
    mcp_tool: (400, "Unknown tool: refund"),
    mcp_operation: (200, "SCOPE_REQUIRED"),
    openwop_mcp: (200, "Unknown tool: refund"),
}


@pytest.mark.parametrize("way", SURFACES, ids=lambda way: way.__name__)
async def test_every_surface_starts_a_workflow_only_with_its_scope(way: Any, tmp_path: Path) -> None:
    async with opened(tmp_path, ServerOptions(mcp=McpOptions(patience_seconds=20))) as client:
        assert (await client("POST", "workflows", {"document": REFUND})).status == 201
        without, holder = await new_key(client, *RIGHTS), await new_key(client, *RIGHTS, SCOPE)
        status, told = SURFACES[way]
        refused = await way(client, without)
        assert (refused.status, told in refused.body.decode()) == (status, True), refused
        assert await started(client) == 0
        answer = await way(client, holder)
        assert answer.status in (200, 201, 202), answer
        assert await started(client) == 1


async def new_key(client: Client, *scopes: str) -> str:
    made = await client("POST", "keys", {"name": "somebody", "scopes": list(scopes)})
    secret: str = made.json()["secret"]
    return secret


async def started(client: Client) -> int:
    return len((await client("GET", "executions")).json()["items"])

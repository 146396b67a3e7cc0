"""A server that speaks one revision of the protocol alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.mcp.clients import connected
from tests.live.mcp.workflows import GREET
from tests.live.rest.servers import serving

pytestmark = pytest.mark.anyio
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_SETTING = "PENSTOCK_SERVER_MCP_PROTOCOL_VERSION"


async def test_clients_agree_on_the_revision_that_there_is(tmp_path: Path) -> None:
    with serving(tmp_path, PENSTOCK_SERVER_MCP_STEP_LOGS="false", **{_SETTING: "2025-06-18"}) as server:
        server.call("POST", "workflows", {"document": GREET})
        for era in ("legacy", "auto"):
            async with connected(server, era) as client:
                assert client.protocol_version == "2025-06-18"
                assert client.server_capabilities.logging is None
                result = await client.call_tool("greet", {"name": "Ada"})
                assert result.structured_content["output"] == {"text": "Hello, Ada"}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list", "Accept": "application/json"}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": _META}}
        answer = server.request("POST", "/mcp", body, headers=headers)
        assert answer.status == 400
        assert answer.json()["id"] == 7
        assert answer.json()["error"]["code"] == -32022
        assert answer.json()["error"]["data"] == {"supported": ["2025-06-18"], "requested": "2026-07-28"}

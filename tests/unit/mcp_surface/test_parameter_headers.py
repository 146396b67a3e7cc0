"""Headers that repeat parameters of a tool are compared with the arguments of every call, also of the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.mcp_surface.options import McpOptions
from tests.scenarios.test_mcp_crowds import modern
from tests.unit.rest.conftest import Answered, Client, opened

pytestmark = pytest.mark.anyio

HEADER_MISMATCH = -32020
ECHO: dict[str, Any] = {
    "penstock": "v1",
    "name": "echo",
    "expose": {"tool": True},
    "input": {
        "type": "object",
        "required": ["region"],
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    "nodes": [{"id": "done", "type": "end", "output": "${ .input.region }"}],
}
COMMON = {"accept": "application/json, text/event-stream", "host": "127.0.0.1"}


async def called(client: Client, **headers: str) -> Answered:
    """The answer to a call of the tool, with these headers."""
    named, body = modern("tools/call", {"name": "echo", "arguments": {"region": "north"}})
    sent = {**COMMON, **named, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await client("POST", "/mcp", body, headers=sent)


@pytest.mark.parametrize("fast_path", [True, False], ids=["with the fast path", "without it"])
@pytest.mark.parametrize(
    "headers", [{"mcp_param_region": "south"}, {"mcp_param_region": "=?base64?SGVsbG8?="}, {}], ids=str
)
async def test_the_first_call_of_a_caller_is_checked(tmp_path: Path, fast_path: bool, headers: dict[str, str]) -> None:
    options = ServerOptions(mcp=McpOptions(toolset="workflows", fast_path=fast_path))
    async with opened(tmp_path, options) as client:
        assert (await client("POST", "workflows", {"document": ECHO})).status == 201
        refused = await called(client, **headers)
        assert (refused.status, refused.json()["error"]["code"]) == (400, HEADER_MISMATCH)
        taken = await called(client, mcp_param_region="north")
        assert (taken.status, b"north" in taken.body) == (200, True)


@pytest.mark.parametrize("fast_path", [True, False], ids=["with the fast path", "without it"])
async def test_a_call_after_a_change_of_policies_is_checked(tmp_path: Path, fast_path: bool) -> None:
    options = ServerOptions(mcp=McpOptions(toolset="workflows", fast_path=fast_path))
    async with opened(tmp_path, options) as client:
        assert (await client("POST", "workflows", {"document": ECHO})).status == 201
        assert (await called(client, mcp_param_region="north")).status == 200
        policy = '@id("other") forbid (principal is Agent, action, resource) when { context.time.hour > 24 };'
        assert (await client("PUT", "policies/other", {"text": policy})).status in (200, 201)
        refused = await called(client, mcp_param_region="south")
        assert (refused.status, refused.json()["error"]["code"]) == (400, HEADER_MISMATCH)

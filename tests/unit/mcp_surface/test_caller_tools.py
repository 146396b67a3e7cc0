"""What is checked before a call is dispatched is checked for every call: the first, and those during changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.mcp_surface.options import McpOptions
from penstock.operations.gate.context import GateLimits
from tests.scenarios.test_mcp_crowds import modern, rpc
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


POLICY = '@id("other") forbid (principal is Agent, action, resource) when { context.time.hour > 24 };'


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
        assert (await client("PUT", "policies/other", {"text": POLICY})).status in (200, 201)
        refused = await called(client, mcp_param_region="south")
        assert (refused.status, refused.json()["error"]["code"]) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize("fast_path", [True, False], ids=["with the fast path", "without it"])
async def test_a_call_beyond_a_limit_after_a_change_of_policies_is_refused_with_a_status(
    tmp_path: Path, fast_path: bool
) -> None:
    # Bursts of a single call: the second one at once is too many.
    options = ServerOptions(mcp=McpOptions(toolset="all", fast_path=fast_path), gate=GateLimits(read_per_minute=1))
    headers = {**COMMON, "mcp-protocol-version": "2025-06-18", "mcp-session-id": "0" * 32}
    body = rpc("tools/call", {"name": "penstock_workflow_list", "arguments": {}})
    async with opened(tmp_path, options) as client:
        assert (await client("POST", "/mcp", body, headers=headers)).status == 200
        assert (await client("PUT", "policies/other", {"text": POLICY})).status in (200, 201)
        refused = await client("POST", "/mcp", body, headers=headers)
        assert (refused.status, refused.json()["error"]["data"]["code"]) == (429, "RATE_LIMITED")

"""HTTP+SSE of revision 2024-11-05 with the SDK's client for it, through the same edge as everything else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.sse import sse_client

from tests.live.mcp.clients import old_stream
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(streaming_server: LiveServer) -> LiveServer:
    """A server with the workflows, which closes the stream of a call soon."""
    return streaming_server


@asynccontextmanager
async def old_client(server: LiveServer, query: str = "", **more: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.key}"}
    chosen = {"mode": "legacy", **more}
    async with Client(sse_client(f"{server.url}/mcp/sse{query}", headers=headers), **chosen) as client:
        yield client


async def test_an_old_client_lists_calls_and_is_asked(server: LiveServer) -> None:
    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"approved": True})

    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with old_client(server, elicitation_callback=answer) as client:
        assert "greet" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("greet", {"name": "Ada"}, progress_callback=hear)
        asked = await client.call_tool("refund_order", {"order": "A-1"})
    assert result.structured_content["output"] == {"text": "Hello, Ada"}
    assert asked.structured_content["output"]["approved"] is True
    assert heard


async def test_a_client_that_probes_for_the_newest_era_falls_back_at_once(server: LiveServer) -> None:
    async with old_client(server, mode="auto") as client:
        assert client.protocol_version == "2025-11-25"
        result = await client.call_tool("greet", {"name": "Ada"})
    assert result.structured_content["output"] == {"text": "Hello, Ada"}


async def test_the_address_says_which_tools_there_are(server: LiveServer) -> None:
    async with old_client(server, "?toolset=greet") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["greet"]


async def test_a_client_that_opens_its_stream_first_may_do_so_at_the_plain_address(plain_server: LiveServer) -> None:
    headers = {"Authorization": f"Bearer {plain_server.key}"}
    async with Client(sse_client(f"{plain_server.url}/mcp", headers=headers), mode="legacy") as client:
        result = await client.call_tool("greet", {"name": "Ada"})
    assert result.structured_content["output"] == {"text": "Hello, Ada"}
    # Whoever does not ask for a stream, or is of a newer revision, gets none.
    for more in ({"Accept": "text/html"}, {"Accept": "text/event-stream", "MCP-Protocol-Version": "2025-11-25"}):
        assert plain_server.request("GET", "/mcp", headers=more).status in (400, 405, 406)


async def test_where_the_settings_say_so_the_plain_address_will_do(server: LiveServer) -> None:
    async with old_stream(server, server.key, path="/mcp") as (address, _):
        assert address.startswith("/mcp/messages?session_id=")


async def test_a_stream_belongs_to_whoever_opened_it_and_ends_with_their_key(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "old", "scopes": ["*"]})
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with old_stream(server, made["secret"]) as (address, lines):
        assert address.startswith("/mcp/messages?session_id=")

        def posted(key: str) -> int:
            return server.request("POST", address, ping, key=key).status

        assert await asyncio.to_thread(posted, server.key) == 404
        assert await asyncio.to_thread(posted, "") == 401
        assert await asyncio.to_thread(posted, made["secret"]) == 202
        async with asyncio.timeout(SECONDS_MAX):
            answer = [line async for line in _until_data(lines)][-1]
            assert json.loads(answer) == {"jsonrpc": "2.0", "id": 1, "result": {}}
            await asyncio.to_thread(server.call, "POST", f"keys/{made['key']['id']}/revoke", {})
            # The stream is cut off or ends; either way nobody is kept waiting.
            try:
                async for _ in lines:
                    pass
            except httpx2.HTTPError:
                pass


async def _until_data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
            return


@pytest.mark.parametrize(
    ("headers", "status"), [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)]
)
@pytest.mark.parametrize("path", ["/mcp/sse", "/mcp/messages"])
def test_the_edge_is_the_same(server: LiveServer, path: str, headers: dict[str, str], status: int) -> None:
    assert server.request("GET", path, headers=headers).status == status
    assert server.request("GET", path, key="").status == 401


def test_who_tries_the_newer_transport_here_is_told_to_fall_back(server: LiveServer) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    answer = server.request("POST", "/mcp/sse", body)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")

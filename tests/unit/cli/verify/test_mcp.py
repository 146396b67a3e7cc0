"""The kit's MCP client reads answers as JSON and as event streams."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from penstock.cli.verify.checks import NotApplicable
from penstock.cli.verify.mcp import McpClient, message_of
from penstock.cli.verify.target import Answer


def answer(text: str, kind: str) -> Answer:
    return Answer(request="POST /mcp", status=200, headers={"content-type": kind}, text=text)


def test_an_answer_is_read_from_a_body_or_from_the_last_event_with_an_id() -> None:
    assert message_of(answer('{"id": 1, "result": {}}', "application/json")) == {"id": 1, "result": {}}
    stream = 'id: 1\ndata: {"method": "notifications/progress"}\n\ndata: {"id": 7, "result": {"a": 1}}\n\ndata: no\n\n'
    assert message_of(answer(stream, "text/event-stream")) == {"id": 7, "result": {"a": 1}}


def test_every_page_of_tools_is_read_and_the_session_is_kept() -> None:
    sessions: list[str | None] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        message = json.loads(request.content)
        sessions.append(request.headers.get("mcp-session-id"))
        if message["method"] == "initialize":
            return httpx2.Response(200, json={"id": 1, "result": {}}, headers={"mcp-session-id": "s"})
        if message["method"] == "tools/list":
            first = "cursor" not in message["params"]
            page = {"tools": [{"name": "a"}], "nextCursor": "2"} if first else {"tools": [{"name": "x_ledger_list"}]}
            return httpx2.Response(200, json={"id": 2, "result": page})
        return httpx2.Response(202)

    async def work() -> tuple[list[str], str]:
        async with httpx2.AsyncClient(base_url="http://t", transport=httpx2.MockTransport(serve)) as http:
            client = McpClient(http=http, path="/mcp", token="k")
            await client.open()
            return [tool["name"] for tool in await client.tools()], await client.tool("ledger.list")

    assert asyncio.run(work()) == (["a", "x_ledger_list"], "x_ledger_list")
    assert sessions[0] is None
    assert set(sessions[1:]) == {"s"}


def test_a_server_without_mcp_is_not_applicable() -> None:
    async def work() -> None:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(404))
        async with httpx2.AsyncClient(base_url="http://t", transport=transport) as http:
            await McpClient(http=http, path="/mcp", token=None).open()

    with pytest.raises(NotApplicable, match="nothing speaks MCP"):
        asyncio.run(work())

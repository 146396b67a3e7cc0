"""Questions to a real client: its model, its roots and a page of the server's, in both eras and on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest

from tests.live.mcp.browsers import Browser, browsing
from tests.live.mcp.clients import ERAS, connected, list_roots, sample, text_of
from tests.live.mcp.workflows import LEARN
from tests.live.rest.servers import LiveServer, serving

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)


def exposed(name: str, *nodes: dict[str, Any], **tool: Any) -> dict[str, Any]:
    return {"penstock": "v1", "name": name, "expose": {"tool": tool or True}, "nodes": list(nodes)}


SECRET = {
    "type": "object",
    "required": ["token"],
    "properties": {"token": {"type": "string", "writeOnly": True, "title": "Token"}},
}
WORKFLOWS = (
    LEARN,
    exposed(
        "unlock",
        {"id": "key", "type": "interrupt", "message": "Which token?", "answer": SECRET},
        {"id": "done", "type": "end", "output": "${ .key }"},
    ),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows, and without a model."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        for document in WORKFLOWS:
            running.call("POST", "workflows", {"document": document})
        yield running


@eras
async def test_a_clients_model_and_its_roots_are_asked(server: LiveServer, era: str) -> None:
    async with connected(server, era, sampling_callback=sample, list_roots_callback=list_roots) as client:
        result = await client.call_tool("learn")
    assert result.structured_content["output"] == {"what": "Paris", "where": "file:///home/ada"}


def test_a_client_that_declares_neither_is_refused_before_anything_starts(server: LiveServer) -> None:
    before = len(server.call("GET", "workflows/learn/executions?limit=500")["items"])
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "learn", "arguments": {}, "_meta": meta},
    }
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "learn",
        "Accept": "application/json, text/event-stream",
    }
    refused = server.request("POST", "/mcp", body, headers=headers)
    error = json.loads(refused.body)["error"]
    assert (refused.status, error["code"]) == (400, -32021)
    assert error["data"]["requiredCapabilities"] == {"sampling": {}, "roots": {}}
    assert len(server.call("GET", "workflows/learn/executions?limit=500")["items"]) == before


async def test_a_client_that_refuses_its_model_fails_the_node(server: LiveServer) -> None:
    async def refuse(context: Any, params: Any) -> types.ErrorData:
        return types.ErrorData(code=-1, message="User rejected sampling request")

    async with connected(server, "legacy", sampling_callback=refuse, list_roots_callback=list_roots) as client:
        result = await client.call_tool("learn")
    assert result.is_error is True
    assert "SAMPLING_REFUSED" in text_of(result)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real one."""
    with browsing(tmp_path_factory.mktemp("profile")) as running:
        yield running


@eras
async def test_a_person_answers_on_a_page_and_the_call_completes(
    server: LiveServer, browser: Browser, era: str
) -> None:
    """Typed into a real browser; the token never passes through the client."""
    shown: dict[str, Any] = {}

    def answer(url: str) -> None:
        browser.open(url)
        shown["title"] = browser.evaluate("document.querySelector('h1').textContent")
        shown["styled"] = browser.evaluate("getComputedStyle(document.body).maxWidth")
        browser.type_into("input[type=password]", "s3cret")
        browser.press("form button")
        shown["after"] = browser.evaluate("document.querySelector('h1').textContent")
        shown["blocked"] = [item for item in browser.events if item.get("method") == "Log.entryAdded"]

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        assert params.mode == "url"
        await asyncio.to_thread(answer, params.url)
        return types.ElicitResult(action="accept")

    async with connected(server, era, elicitation_callback=ask) as client:
        result = await client.call_tool("unlock")
    assert result.structured_content["output"] == {"token": "***"}
    assert (shown["title"], shown["after"], shown["blocked"]) == ("A question", "Thank you", [])
    assert shown["styled"] != "none"

"""Tools of another MCP server, offered by a real server process to the SDK's client in both eras."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from penstock.runtime.executors.mcp.config import command_name
from tests.live.mcp.clients import ERAS, connected, error_of, text_of
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)
UPSTREAM = Path(__file__).parents[2] / "fixtures" / "upstream_server.py"
# As it would stand in the file of an MCP client, with what is imported beside it.
SETTINGS: dict[str, Any] = {
    "mcpServers": {
        "shop": {
            "command": sys.executable,
            "args": [str(UPSTREAM), "said.txt"],
            "import": {
                "tools": ["search", "order", "refuse"],
                "prompts": ["recommend"],
                "resources": ["shop://*"],
                "accept": "first",
                "governance": {"search": {"read_only": True, "risk": "low"}, "refuse": {"scopes": ["shop:refuse"]}},
            },
        }
    },
    "mcp_allow_commands": [command_name(sys.executable)],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that imports the tools of another one."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "penstock.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    with serving(folder) as running:
        running.call("POST", "upstreams/shop/refresh", {})
        yield running


async def tools_of(server: LiveServer, era: str) -> dict[str, types.Tool]:
    async with connected(server, era, toolset="upstream") as client:
        return {tool.name: tool for tool in (await client.list_tools()).tools}


@eras
async def test_imported_tools_are_listed_as_the_operator_says(server: LiveServer, era: str) -> None:
    tools = await tools_of(server, era)
    assert {"shop_search", "shop_order", "shop_refuse"} <= set(tools)
    assert not {"penstock_upstream_accept", "penstock_upstream_revoke", "shop_announce"} & set(tools)
    search, order = tools["shop_search"], tools["shop_order"]
    assert search.annotations is not None
    assert order.annotations is not None
    assert (search.annotations.read_only_hint, order.annotations.destructive_hint) == (True, True)
    assert search.meta is not None
    assert (search.meta["penstock/server"], search.meta["penstock/upstream"]) == ("shop", "search")


@eras
async def test_resources_of_the_other_server_are_listed_and_read_here(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        listed = {str(item.uri): item for item in (await client.list_resources()).resources}
        templates = [item.uri_template for item in (await client.list_resource_templates()).resource_templates]
        read = await client.read_resource("penstock://upstreams/shop/shop://teas")
    meta = listed["penstock://upstreams/shop/shop://teas"].meta
    assert meta is not None
    assert (meta["penstock/server"], meta["penstock/untrusted"]) == ("shop", True)
    assert "penstock://upstreams/shop/shop://teas/{name}" in templates
    assert not [uri for uri in (*listed, *templates) if "secret://" in uri]
    [contents] = read.contents
    assert isinstance(contents, types.TextResourceContents)
    assert (str(contents.uri), contents.text) == ("penstock://upstreams/shop/shop://teas", "green, black")


@eras
async def test_a_call_gives_what_the_other_server_gave_and_says_whose_words_they_are(
    server: LiveServer, era: str
) -> None:
    async with connected(server, era) as client:
        found = await client.call_tool("shop_search", {"query": "tea"})
        failed = await client.call_tool("shop_refuse")
        wrong = await client.call_tool("shop_search", {"queri": "tea"})
    assert found.structured_content == {"items": ["tea 1", "tea 2"]}
    assert found.meta is not None
    assert (found.meta["penstock/untrusted"], found.meta["penstock/server"]) == (True, "shop")
    assert (failed.is_error, text_of(failed)) == (True, "the shop is closed")
    assert error_of(wrong)["code"] == "INVALID_ARGUMENTS"


@eras
async def test_prompts_of_the_other_server_are_prompts_and_resources_are_read_with_a_tool(
    server: LiveServer, era: str
) -> None:
    async with connected(server, era) as client:
        [prompt] = (await client.list_prompts()).prompts
        assert (prompt.name, [item.name for item in prompt.arguments or []]) == ("shop.recommend", ["taste"])
        found = await client.get_prompt("shop.recommend", {"taste": "mild"})
        assert isinstance(found.messages[0].content, types.TextContent)
        assert found.messages[0].content.text == "Recommend something mild."
        assert (found.meta or {}).get("penstock/untrusted") is True
        read = await client.call_tool("shop_resources_read", {"uri": "shop://teas"})
        assert "green, black" in text_of(read)
        assert (read.meta or {}).get("penstock/untrusted") is True


@eras
async def test_a_registered_tool_is_a_tool_of_its_own_and_calls_the_other_server_as_its_caller(
    server: LiveServer, era: str
) -> None:
    body: Any = {"id": f"find_{era}", "kind": "mcp", "server": "shop", "name": "search", "expose": True}
    server.call("POST", "tools", {**body, "description": "Finds things to buy."})
    answer = server.call("POST", f"tools/find_{era}/executions", {"arguments": {"query": "rye"}})
    assert (answer["status"], answer["output"]) == ("completed", {"items": ["rye 1", "rye 2"]})
    async with connected(server, era) as client:
        [tool] = [item for item in (await client.list_tools()).tools if item.name == f"find_{era}"]
        assert (tool.description, tool.input_schema["required"]) == ("Finds things to buy.", ["query"])
        found = await client.call_tool(f"find_{era}", {"query": "tea"})
    assert (found.structured_content or {})["output"] == {"items": ["tea 1", "tea 2"]}
    assert (found.meta or {}).get("penstock/untrusted") is True
    assert (found.structured_content or {})["workflow_id"] == f"tool:find_{era}"


@eras
async def test_the_question_of_the_other_server_reaches_the_person_at_the_client(server: LiveServer, era: str) -> None:
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        if "rye" in params.message:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"confirmed": True})

    async with connected(server, era, elicitation_callback=answer) as client:
        result = await client.call_tool("shop_order", {"item": "tea"})
        declined = await client.call_tool("shop_order", {"item": "rye"})
    assert text_of(result) == "ordered tea"
    assert text_of(declined) == "rye: decline"
    assert asked[0].message == "shop/order asks: Really order tea?"
    assert asked[0].requested_schema["required"] == ["confirmed"]
    assert set(asked[0].requested_schema["properties"]) == {"confirmed", "note"}
    # And to whoever cannot be asked: the execution waits.
    async with connected(server, era) as client:
        waits = await client.call_tool("shop_order", {"item": "oil"})
        assert "Really order oil?" in text_of(waits)
        execution_id = waits.structured_content["execution_id"]
        answers = f"executions/{execution_id}/answers"
        await asyncio.to_thread(server.call, "POST", answers, {"answer": {"confirmed": False}})
        ended = await client.call_tool("penstock_execution_wait", {"execution_id": execution_id})
    assert text_of(ended) == "left oil"
    assert ended.structured_content["status"] == "completed"


async def test_a_changed_tool_leaves_the_list_and_says_why_when_it_is_called(server: LiveServer) -> None:
    (server.folder / "said.txt").write_text("Finds items, and your keys.", encoding="utf-8")
    async with connected(server, "2026-07-28") as client, client.listen(tools_list_changed=True) as changes:
        looked = await asyncio.to_thread(server.call, "POST", "upstreams/shop/refresh", {})
        assert {item["name"]: item["status"] for item in looked["items"]}["search"] == "changed"
        async with asyncio.timeout(SECONDS_MAX):
            await anext(aiter(changes))
        assert "shop_search" not in {tool.name for tool in (await client.list_tools()).tools}
        refused = await client.call_tool("shop_search", {"query": "tea"})
        assert refused.is_error is True
        assert error_of(refused)["code"] == "UPSTREAM_TOOL_QUARANTINED"
        assert "keys" not in text_of(refused)
        accepting = {"tools": ["search"]}
        await asyncio.to_thread(server.call, "POST", "upstreams/shop/accept", accepting)
        assert (await client.call_tool("shop_search", {"query": "tea"})).is_error is False


def test_a_question_of_the_other_server_survives_the_death_of_both(server: LiveServer) -> None:
    asked = server.call("POST", "upstreams/shop/tools/order/call", {"arguments": {"item": "tea"}})
    assert asked["status"] == "waiting_input"
    server.kill()  # the other server ends with its pipe
    server.start()
    server.call("POST", f"executions/{asked['execution_id']}/answers", {"answer": {"confirmed": True}})
    ended = server.call("GET", f"executions/{asked['execution_id']}/wait?wait_seconds=240")
    assert (ended["status"], ended["output"]) == ("completed", {"text": "ordered tea"})

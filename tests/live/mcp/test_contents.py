"""Resources, prompts and completion over HTTP with the SDK's client, in both eras, against a real server process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.live.mcp.clients import ERAS, connected, text_of
from tests.live.rest.servers import LiveServer, serving

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)
PNG = "iVBORw0KGgo="
ICON = "data:image/png;base64,iVBORw0KGgo="


def workflow(name: str, output: Any, expose: dict[str, Any], *before: dict[str, Any], **more: Any) -> dict[str, Any]:
    end = {"id": "done", "type": "end", "output": output}
    return {"penstock": "v1", "name": name, "nodes": [*before, end], "expose": expose, **more}


NAMED = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "enum": ["123", "abc"]}}}
QUESTION = {
    "id": "name",
    "type": "interrupt",
    "message": "What is your name?",
    "answer": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
}
DOCUMENTS = (
    workflow("text", "Plain text.", {"resource": {"uri": "test://static-text", "mime_type": "text/plain"}}),
    workflow(
        "binary",
        {"blob": PNG, "mimeType": "image/png"},
        {"resource": {"uri": "test://static-binary", "result": "content"}},
    ),
    workflow(
        "data",
        {"id": "${ .input.id }"},
        {"resource": {"uri": "test://template/{id}/data", "icon": ICON}},
        input=NAMED,
    ),
    workflow(
        "blocks",
        [
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "test://static-text", "mimeType": "text/plain", "text": "x"}},
            {"type": "resource_link", "uri": "test://static-text", "name": "text"},
            {"neither": "a block"},
            "text",
        ],
        {"tool": {"result": "content", "icon": ICON}, "prompt": {"run": True, "name": "shown", "icon": ICON}},
    ),
    workflow("one", {"type": "text", "text": "only this"}, {"tool": {"result": "content"}}),
    workflow("greeting", "Hello, ${ .name.name }", {"prompt": {"run": True, "name": "greeting"}}, QUESTION),
    workflow("long", '${ [range(20000)] | map(tostring) | join(" ") }', {"tool": True}),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        for document in DOCUMENTS:
            running.call("POST", "workflows", {"document": document})
        yield running


@eras
async def test_resources_of_workflows_are_listed_and_read(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        listed = {item.uri for item in (await client.list_resources()).resources}
        templates = {item.uri_template: item for item in (await client.list_resource_templates()).resource_templates}
        text = (await client.read_resource("test://static-text")).contents[0]
        binary = (await client.read_resource("test://static-binary")).contents[0]
        data = (await client.read_resource("test://template/123/data")).contents[0]
        with pytest.raises(MCPError) as missing:
            await client.read_resource("test://template/999/data")
    assert {"test://static-text", "test://static-binary"} <= listed
    icons = templates["test://template/{id}/data"].icons
    assert icons is not None
    assert icons[0].src == ICON
    assert isinstance(text, types.TextResourceContents)
    assert (text.uri, text.mime_type, text.text) == ("test://static-text", "text/plain", "Plain text.")
    assert isinstance(binary, types.BlobResourceContents)
    assert (binary.mime_type, binary.blob) == ("image/png", PNG)
    assert isinstance(data, types.TextResourceContents)
    assert json.loads(data.text) == {"id": "123"}
    assert missing.value.code == (-32002 if era == "legacy" else -32602)


@eras
async def test_variables_of_templates_are_completed(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        reference = types.ResourceTemplateReference(uri="test://template/{id}/data")
        found = await client.complete(reference, {"name": "id", "value": "a"})
    assert (found.completion.values, found.completion.total, found.completion.has_more) == (["abc"], 1, False)


@eras
async def test_a_prompt_gives_what_its_workflow_gives(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        listed = {item.name: item for item in (await client.list_prompts()).prompts}
        found = await client.get_prompt("shown")
    icons = listed["shown"].icons
    assert icons is not None
    assert icons[0].src == ICON
    kinds = [message.content.type for message in found.messages]
    assert kinds == ["image", "audio", "resource", "resource_link", "text", "text"]


@eras
async def test_a_prompt_asks_the_person_first(server: LiveServer, era: str) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with connected(server, era, elicitation_callback=answer) as client:
        found = await client.get_prompt("greeting")
    assert asked == ["What is your name?"]
    assert isinstance(found.messages[0].content, types.TextContent)
    assert found.messages[0].content.text == "Hello, Ada"


@eras
async def test_content_comes_back_as_the_workflow_made_it(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        several = await client.call_tool("blocks")
        one = await client.call_tool("one")
    blocks = tools["blocks"]
    assert blocks.output_schema is None
    assert blocks.icons is not None
    assert blocks.icons[0].src == ICON
    assert [item.type for item in several.content] == ["image", "audio", "resource", "resource_link", "text", "text"]
    assert [item.text for item in several.content if item.type == "text"] == ['{"neither":"a block"}', "text"]
    assert (several.structured_content, several.is_error) == (None, False)
    assert [item.text for item in one.content if item.type == "text"] == ["only this"]


@eras
async def test_a_long_text_is_a_preview_and_a_link_to_the_result(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("long")
        links = [item for item in result.content if item.type == "resource_link"]
        whole = (await client.read_resource(links[0].uri)).contents[0]
    execution_id = result.structured_content["execution_id"]
    assert links[0].uri == f"penstock://executions/{execution_id}/result"
    assert len(text_of(result)) < 30_000
    assert len(json.dumps(result.structured_content)) < 30_000
    assert isinstance(whole, types.TextResourceContents)
    assert whole.mime_type == "text/plain"
    assert whole.text.endswith(" 19998 19999")


@eras
async def test_a_key_with_a_toolset_has_these_tools_and_no_others(server: LiveServer, era: str) -> None:
    made = server.call("POST", "keys", {"name": f"narrow {era}", "scopes": ["*"], "toolset": "one"})
    async with connected(server, era, key=made["secret"], toolset="all") as client:
        listed = await client.list_tools()
        result = await client.call_tool("one")
        with pytest.raises(MCPError):
            await client.call_tool("blocks")
    assert [tool.name for tool in listed.tools] == ["one"]
    assert text_of(result) == "only this"
    assert listed.meta is not None
    assert listed.meta["penstock/catalogue"]["tools"] == 1

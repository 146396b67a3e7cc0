"""MCP over HTTP with the SDK's client, in both eras, against a real server process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.live.mcp.clients import ERAS, connected, error_of, text_of
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer, serving

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows, whose calls wait for two seconds at most."""
    with serving(tmp_path_factory.mktemp("server"), PENSTOCK_SERVER_MCP_REQUEST_TIMEOUT="2s") as running:
        for document in ALL:
            running.call("POST", "workflows", {"document": document})
        yield running


def new_key(server: LiveServer, *scopes: str, name: str) -> str:
    made = server.call("POST", "keys", {"name": name, "scopes": list(scopes)})
    return str(made["secret"])


@eras
async def test_tools_are_listed_in_one_page_and_in_order(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        listed = await client.list_tools()
    names = [tool.name for tool in listed.tools]
    assert names == sorted(names)
    assert listed.next_cursor is None
    assert {"greet", "refund_order", "penstock_execution_answer"} <= set(names)
    assert not [name for name in names if name.startswith(("penstock_workflow", "penstock_key", "penstock_audit"))]
    greet = next(tool for tool in listed.tools if tool.name == "greet")
    assert (greet.title, greet.description) == ("Greet somebody", "Says hello.")
    assert greet.annotations is not None
    assert greet.annotations.read_only_hint is True
    assert greet.input_schema["required"] == ["name"]
    assert greet.meta is not None
    assert greet.meta["penstock/version"] == "1.2.0"


def without_words(schema: Any) -> Any:
    """A schema without its descriptions, which name tools over MCP and operations elsewhere."""
    if isinstance(schema, list):
        return [without_words(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    told = isinstance(schema.get("description"), str)
    return {key: without_words(item) for key, item in schema.items() if not (told and key == "description")}


@eras
async def test_a_line_of_the_log_names_the_method_and_the_tool(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        await client.call_tool("stumble", {})
        with pytest.raises(MCPError, match="did you mean greet"):
            await client.call_tool("great", {})
    assert server.logged("request", mcp_method="tools/call", tool="stumble")["status"] == 200
    assert server.logged("request", mcp_method="tools/call", tool="great")["route"]


async def test_input_schemas_are_those_of_rest(server: LiveServer) -> None:
    operations = {item["name"]: item for item in server.call("GET", "operations")["items"]}
    async with connected(server, toolset="all") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    compared = 0
    for name, operation in operations.items():
        tool = tools.get("penstock_" + name.replace(".", "_"))
        if tool is not None:
            assert without_words(tool.input_schema) == without_words(operation["input_schema"]), name
            compared += 1
    assert compared > 50


@eras
async def test_what_is_not_listed_is_found_described_and_called(server: LiveServer, era: str) -> None:
    async with connected(server, era, toolset="management") as client:
        assert "penstock_system_health" not in {tool.name for tool in (await client.list_tools()).tools}
        found = await client.call_tool("penstock_tools_search", {"query": "health of the system"})
        told = await client.call_tool("penstock_tools_describe", {"name": "penstock_system_health"})
        answer = await client.call_tool("penstock_tools_call", {"name": "penstock_system_health", "arguments": {}})
    assert "penstock_system_health" in [item["name"] for item in found.structured_content["items"]]
    assert told.structured_content["inputSchema"]["type"] == "object"
    assert answer.is_error is False


@eras
async def test_a_workflow_is_called_through_the_search_as_well(server: LiveServer, era: str) -> None:
    async with connected(server, era, toolset="management") as client:
        result = await client.call_tool("penstock_tools_call", {"name": "greet", "arguments": {"name": "Ada"}})
        wrong = await client.call_tool("penstock_tools_call", {"name": "nothing"})
    assert result.structured_content["output"] == {"text": "Hello, Ada"}
    assert wrong.is_error is True


@eras
async def test_the_address_says_which_tools_there_are(server: LiveServer, era: str) -> None:
    async with connected(server, era, toolset="greet") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["greet"]
        with pytest.raises(MCPError):
            await client.call_tool("penstock_workflow_list")


@eras
async def test_a_workflow_is_called_and_its_output_comes_back(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("greet", {"name": "Ada"})
    assert result.is_error is False
    assert json.loads(text_of(result)) == {"text": "Hello, Ada"}
    assert result.structured_content["status"] == "completed"
    assert result.structured_content["output"] == {"text": "Hello, Ada"}


@eras
async def test_arguments_that_do_not_fit_are_told_one_by_one(server: LiveServer, era: str) -> None:
    before = len(server.call("GET", "workflows/greet/executions?limit=500")["items"])
    async with connected(server, era) as client:
        result = await client.call_tool("greet", {"tone": "rude", "more": 1})
    assert result.is_error is True
    assert result.structured_content is None
    error = error_of(result)
    assert error["code"] == "INVALID_ARGUMENTS"
    assert len(error["details"]["errors"]) == 3
    assert "/tone" in text_of(result)
    assert len(server.call("GET", "workflows/greet/executions?limit=500")["items"]) == before


@eras
@pytest.mark.parametrize("name", ["penstock_workflow_get", "penstock.workflow.get", "workflow.get"])
async def test_every_spelling_of_a_name_is_understood(server: LiveServer, era: str, name: str) -> None:
    async with connected(server, era, toolset="management") as client:
        result = await client.call_tool(name, {"workflow_id": "greet"})
    assert result.structured_content["id"] == "greet"


@eras
async def test_a_refusal_says_what_to_call_next(server: LiveServer, era: str) -> None:
    async with connected(server, era, toolset="management") as client:
        result = await client.call_tool("penstock_workflow_get", {"workflow_id": "nothing"})
    assert result.is_error is True
    assert "Call next: penstock_workflow_list" in text_of(result)


@eras
async def test_a_failed_execution_is_an_error_with_its_reason(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("stumble")
    assert result.is_error is True
    assert "FELL: it fell over" in text_of(result)


@eras
async def test_a_tool_without_its_scope_is_neither_listed_nor_known(server: LiveServer, era: str) -> None:
    key = new_key(server, "workflow:read", name=f"reader {era}")
    async with connected(server, era, key=key, toolset="management") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "penstock_workflow_get" in names
        assert not names & {"greet", "penstock_workflow_delete", "penstock_workflow_execute"}
        with pytest.raises(MCPError) as hidden:
            await client.call_tool("greet", {"name": "Ada"})
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nothing", {"name": "Ada"})
    assert hidden.value.code == unknown.value.code == -32602
    assert hidden.value.message.replace("greet", "nothing") == unknown.value.message


@eras
async def test_progress_is_told_and_then_the_handle(server: LiveServer, era: str) -> None:
    heard: list[tuple[float, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with connected(server, era) as client:
        result = await client.call_tool("nap", progress_callback=hear)
        assert result.is_error is False
        execution_id = result.structured_content["execution_id"]
        assert "penstock_execution_wait" in text_of(result)
        assert "penstock_execution_cancel" in text_of(result)
        stopped = await client.call_tool("penstock_execution_cancel", {"execution_id": execution_id})
        assert stopped.is_error is False
    assert heard
    assert [number for number, _ in heard] == sorted(number for number, _ in heard)


@eras
async def test_a_large_output_is_shown_in_part_with_a_link(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("big")
        links = [item for item in result.content if item.type == "resource_link"]
        assert len(text_of(result)) < 26_000
        assert "output" not in result.structured_content
        read = await client.read_resource(links[0].uri)
    whole = json.loads(read.contents[0].text)  # type: ignore[union-attr]
    assert len(whole["items"]) == 20_000


@eras
async def test_without_a_way_to_ask_the_question_is_told_as_text(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        result = await client.call_tool("refund_order", {"order": "A-1"})
        assert result.is_error is False
        assert "May I refund this order?" in text_of(result)
        asked = result.structured_content
        arguments = {
            "execution_id": asked["execution_id"],
            "interrupt_id": asked["questions"][0]["interrupt_id"],
            "answer": {"approved": True},
        }
        # A person answers elsewhere: what a model calls is no answer.
        assert "PERSON_REQUIRED" in text_of(await client.call_tool("penstock_execution_answer", arguments))
        path = f"executions/{asked['execution_id']}/answers"
        await asyncio.to_thread(server.call, "POST", path, {"answer": {"approved": True}})
        ended = await client.call_tool("penstock_execution_wait", {"execution_id": asked["execution_id"]})
    assert ended.structured_content["output"]["approved"] is True


@eras
async def test_the_person_at_the_client_answers_the_question(server: LiveServer, era: str) -> None:
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"approved": False, "reason": "too late"})

    async with connected(server, era, elicitation_callback=answer) as client:
        result = await client.call_tool("refund_order", {"order": "A-2"})
    assert result.structured_content["status"] == "completed"
    assert result.structured_content["output"]["reason"] == "too late"
    assert asked[0].message == "May I refund this order?"
    assert asked[0].requested_schema["properties"]["approved"]["enum"] == ["Approve", "Decline"]


@eras
async def test_who_declines_does_not_approve_and_who_cancels_leaves_the_question_open(
    server: LiveServer, era: str
) -> None:
    actions: list[Literal["decline", "cancel"]] = ["decline", "cancel"]

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=actions.pop(0))

    async with connected(server, era, elicitation_callback=answer) as client:
        declined = await client.call_tool("refund_order", {"order": "A-3"})
        left = await client.call_tool("refund_order", {"order": "A-4"})
    assert declined.structured_content["output"] == {"approved": False}
    assert left.structured_content["status"].startswith("waiting")
    assert "did not answer" in text_of(left)


@eras
async def test_workflows_and_executions_can_be_read(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        assert "penstock://workflows/greet" in uris
        assert uris == sorted(uris)
        templates = (await client.list_resource_templates()).resource_templates
        assert "penstock://executions/{execution_id}" in [item.uri_template for item in templates]
        read = await client.read_resource("penstock://workflows/greet")
        assert json.loads(read.contents[0].text)["id"] == "greet"  # type: ignore[union-attr]
        for nowhere in ("penstock://workflows/nothing", "penstock://keys/x", "file:///etc/passwd"):
            with pytest.raises(MCPError) as missing:
                await client.read_resource(nowhere)
            assert missing.value.code == (-32002 if era == "legacy" else -32602)


@eras
async def test_a_cursor_that_nobody_gave_is_refused(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        lists = (client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts)
        for listing in lists:
            with pytest.raises(MCPError) as wrong:
                await listing(cursor="page-2")
            assert wrong.value.code == -32602
            assert "cursor" in wrong.value.message


async def test_who_shook_hands_may_ping(server: LiveServer) -> None:
    async with connected(server, "legacy") as client:
        await client.session.send_ping()


@eras
async def test_a_prompt_shows_its_arguments_as_data(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["greet"]
        shown = await client.get_prompt("greet", {"name": "${ secret }"})
        assert "${ secret }" in shown.messages[0].content.text  # type: ignore[union-attr]
        with pytest.raises(MCPError):
            await client.get_prompt("greet", {})
        choices = await client.complete(
            types.PromptReference(type="ref/prompt", name="greet"), {"name": "tone", "value": "f"}
        )
        assert choices.completion.values == ["formal", "friendly"]
        named = await client.complete(
            types.ResourceTemplateReference(type="ref/resource", uri="penstock://workflows/{workflow_id}"),
            {"name": "workflow_id", "value": "gr"},
        )
        assert named.completion.values == ["greet"]


@pytest.mark.parametrize(("key", "problem"), [("", None), ("pen_wrong", "invalid_token")])
def test_without_a_valid_key_nobody_comes_in(server: LiveServer, key: str, problem: str | None) -> None:
    answer = server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, key=key)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert (problem or "") in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("header", "value", "status"), [("Host", "evil.example", 421), ("Origin", "http://evil.example", 403)]
)
def test_pages_of_others_do_not_reach_it(server: LiveServer, header: str, value: str, status: int) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert server.request("POST", "/mcp", body, headers={header: value}).status == status


def test_its_health_needs_no_key(server: LiveServer) -> None:
    assert server.request("GET", "/mcp/healthz", key="").json() == {"status": "ok"}


def test_a_session_belongs_to_whoever_began_it(server: LiveServer) -> None:
    accepted = {"Accept": "application/json, text/event-stream"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    begun = server.request("POST", "/mcp", body, headers=accepted)
    headers = {**accepted, "Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}
    listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    other = new_key(server, "*", name="somebody else")
    assert server.request("POST", "/mcp", listed, headers=headers, key=other).status == 404
    assert server.request("POST", "/mcp", listed, headers=headers).status == 200
    assert server.request("DELETE", "/mcp", headers=headers).status == 200
    assert server.request("POST", "/mcp", listed, headers=headers).status == 404


async def test_a_session_that_the_server_does_not_know_is_served_without_one(server: LiveServer) -> None:
    headers = {
        "Mcp-Session-Id": "from-before-the-restart",
        "MCP-Protocol-Version": "2025-11-25",
        "Accept": "application/json, text/event-stream",
    }
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "greet", "arguments": {"name": "Eve"}},
    }
    answer = server.request("POST", "/mcp", body, headers=headers)
    assert answer.status == 200
    assert b"Hello, Eve" in answer.body


@pytest.mark.parametrize(("era", "becomes"), [("legacy", "cancelled"), ("2026-07-28", "waiting_timer")])
async def test_who_cancels_cancels_the_execution_and_who_hangs_up_does_not(
    server: LiveServer, era: str, becomes: str
) -> None:
    """The SDK's client says that it cancels in the handshake era; in the newest one it closes the stream."""
    begun = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async with connected(server, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.call_tool("nap", progress_callback=hear))
            await begun.wait()
            tasks.cancel_scope.cancel()
        # In a thread: the client has something to send meanwhile.
        newest = (await asyncio.to_thread(server.call, "GET", "workflows/nap/executions?limit=1"))["items"][0]
        seconds = 20 if becomes == "cancelled" else 1
        address = f"executions/{newest['execution_id']}/wait?wait_seconds={seconds}"
        ended = await asyncio.to_thread(server.call, "GET", address)
    assert ended["status"] == becomes
    if becomes == "cancelled":
        assert ended["error"]["message"] == "mcp-request-cancelled"

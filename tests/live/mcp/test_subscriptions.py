"""Clients of both eras hear what changed: lists, workflows, executions, tasks; and only what they may see."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged

from penstock import Penstock
from penstock.base import limits
from penstock.definitions.build.workflow import build_workflow
from tests.live.mcp.clients import SUBSCRIPTION_ID, connected, listened, listening, new_session, soon
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer
from tests.live.tenants import member
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(streaming_server: LiveServer) -> LiveServer:
    """A server with the workflows, which closes the stream of a call soon."""
    return streaming_server


def new_key(server: LiveServer, *scopes: str, name: str) -> dict[str, Any]:
    made: dict[str, Any] = server.call("POST", "keys", {"name": name, "scopes": list(scopes)})
    return made


async def create(server: LiveServer, name: str, **more: Any) -> None:
    """Create a workflow over REST."""
    document = {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end"}], **more}
    await asyncio.to_thread(server.call, "POST", "workflows", {"document": document})


async def start(server: LiveServer, workflow: str) -> str:
    begun = await asyncio.to_thread(server.call, "POST", f"workflows/{workflow}/executions", {"input": {}})
    return str(begun["execution_id"])


class Ears:
    """Remembers notifications of a session, and lets a test wait for one."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | None]] = []
        self._arrived = asyncio.Event()

    async def hear(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        method = getattr(message, "method", None)
        if isinstance(method, str):
            self.heard.append((method, getattr(message.params, "uri", None)))
            self._arrived.set()

    async def wait_for(self, method: str, uri: str | None = None) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while (method, uri) not in self.heard:
                self._arrived.clear()
                await self._arrived.wait()


async def until(
    messages: AsyncIterator[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Messages up to the one that is wanted."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(SECONDS_MAX):
        async for message in messages:
            found.append(message)
            if wanted(message):
                return found
    raise AssertionError(f"the stream ended: {found}")


async def test_lists_that_change_are_told_on_a_stream(server: LiveServer) -> None:
    async with (
        connected(server, "2026-07-28") as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True) as stream,
    ):
        await create(server, "listed_by_stream", expose={"tool": True, "prompt": True})
        found = {await soon(anext(stream)), await soon(anext(stream)), await soon(anext(stream))}
    assert found == {ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()}


async def test_what_was_not_asked_for_is_not_told(server: LiveServer) -> None:
    async with (
        connected(server, "2026-07-28") as client,
        client.listen(resources_list_changed=True) as stream,
    ):
        await create(server, "only_a_resource", expose={"tool": True})
        assert await soon(anext(stream)) == ResourcesListChanged()
        await create(server, "no_tool_at_all")
        assert await soon(anext(stream)) == ResourcesListChanged()


async def test_lists_that_change_are_told_in_a_session(server: LiveServer) -> None:
    ears = Ears()
    async with connected(server, "legacy", message_handler=ears.hear) as client:
        capabilities = client.server_capabilities
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True
        assert capabilities.resources is not None
        assert (capabilities.resources.list_changed, capabilities.resources.subscribe) == (True, True)
        await create(server, "listed_in_session", expose={"tool": True, "prompt": True})
        for kind in ("tools", "prompts", "resources"):
            await ears.wait_for(f"notifications/{kind}/list_changed")


async def test_who_may_not_see_a_list_hears_nothing_of_it(server: LiveServer) -> None:
    key = new_key(server, "execution:read", name="watcher")["secret"]
    execution_id = await start(server, "refund")
    uri = f"penstock://executions/{execution_id}"
    wanted = {
        "toolsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": [uri, "penstock://workflows/greet", "penstock://executions/nothing"],
        "taskIds": ["nothing"],
    }
    async with listened(server, wanted, key=key) as messages:
        first = await soon(anext(messages))
        assert first["method"] == "notifications/subscriptions/acknowledged"
        granted = {
            "toolsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": [uri],
            "taskIds": [],
        }
        assert first["params"]["notifications"] == granted
        await create(server, "unseen", expose={"tool": True})
        await asyncio.to_thread(server.call, "POST", f"executions/{execution_id}/cancel", {"reason": "enough"})
        found = await until(messages, lambda message: message.get("method") == "notifications/resources/updated")
        assert [message["params"]["_meta"][SUBSCRIPTION_ID] for message in found] == ["listen-1"] * len(found)
        assert {message["method"] for message in found} == {"notifications/resources/updated"}


async def test_an_execution_that_moves_is_told_on_a_stream(server: LiveServer) -> None:
    execution_id = await start(server, "refund")
    uris = [f"penstock://executions/{execution_id}{part}" for part in ("", "/history", "/result")]
    async with (
        connected(server, "2026-07-28") as client,
        client.listen(resource_subscriptions=uris) as stream,
    ):
        assert stream.honored.resource_subscriptions == uris
        await asyncio.to_thread(server.call, "POST", f"executions/{execution_id}/cancel", {"reason": "enough"})
        assert {await soon(anext(stream)) for _ in uris} == {ResourceUpdated(uri) for uri in uris}


async def test_what_a_workflow_stands_behind_is_told_when_the_workflow_changes(server: LiveServer) -> None:
    await create(server, "report", expose={"resource": {"uri": "reports://daily"}})
    async with (
        connected(server, "2026-07-28") as client,
        client.listen(resource_subscriptions=["reports://daily", "reports://weekly"]) as stream,
    ):
        assert stream.honored.resource_subscriptions == ["reports://daily"]
        document = {"penstock": "v1", "name": "report", "title": "Anew", "nodes": [{"id": "done", "type": "end"}]}
        await asyncio.to_thread(server.call, "PUT", "workflows/report", {"document": document})
        assert await soon(anext(stream)) == ResourceUpdated("reports://daily")


async def test_what_another_process_stores_in_the_file_is_told(server: LiveServer) -> None:
    document: dict[str, Any] = {
        "penstock": "v1",
        "name": "of_another_process",
        "nodes": [{"id": "done", "type": "end"}],
    }
    async with (
        connected(server, "2026-07-28") as client,
        client.listen(tools_list_changed=True) as stream,
        Penstock.open(server.folder / "penstock.db", perform=False) as beside,
    ):
        await beside.host.register(build_workflow({**document, "expose": {"tool": True}}))
        assert await soon(anext(stream)) == ToolsListChanged()
        assert "of_another_process" in [tool.name for tool in (await client.list_tools()).tools]


async def test_what_is_of_another_tenant_is_not_there(server: LiveServer) -> None:
    other = member(server, "elsewhere")
    execution_id = await start(server, "refund")
    wanted = {"resourceSubscriptions": [f"penstock://executions/{execution_id}"], "taskIds": [execution_id]}
    async with listened(server, wanted, key=other.key) as messages:
        assert (await soon(anext(messages)))["params"]["notifications"] == {"taskIds": []}


async def test_one_subscription_is_not_about_everything(server: LiveServer) -> None:
    await create(
        server,
        "days",
        input={"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}},
        expose={"resource": {"uri": "days://{day}"}},
    )
    async with connected(server, "2026-07-28") as client:
        uris = [f"days://{number}" for number in range(limits.MCP_SUBSCRIBED_MAX + 1)]
        with pytest.raises(MCPError) as refused:
            async with client.listen(resource_subscriptions=uris):
                pass
        assert refused.value.data["code"] == "STREAMS_LIMITED"
        async with client.listen(resource_subscriptions=uris[1:]) as stream:
            assert stream.honored.resource_subscriptions == uris[1:]


@pytest.mark.parametrize("wrong", ["one", [1]])
def test_tasks_are_named_in_a_list(server: LiveServer, wrong: Any) -> None:
    headers, body = listening({"taskIds": wrong})
    answer = server.request("POST", "/mcp", body, headers=headers)
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32602)


async def test_a_session_subscribes_and_unsubscribes(server: LiveServer) -> None:
    ears = Ears()
    execution_id = await start(server, "refund")
    uri, other = f"penstock://executions/{execution_id}", "penstock://workflows/big"
    async with connected(server, "legacy", message_handler=ears.hear) as client:

        async def ask(request: Any) -> None:
            await client.session.send_request(request, types.EmptyResult)

        for subscribed in (uri, other, "penstock://workflows/greet"):
            await ask(types.SubscribeRequest(params=types.SubscribeRequestParams(uri=subscribed)))
        await ask(types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri="penstock://workflows/greet")))
        for nowhere in ("penstock://executions/nothing", "penstock://workflows/nothing", "file:///etc/passwd"):
            with pytest.raises(MCPError) as missing:
                await ask(types.SubscribeRequest(params=types.SubscribeRequestParams(uri=nowhere)))
            assert missing.value.code == -32002
        for document in ALL:
            if document["name"] in ("big", "greet"):
                changed = {"document": {**document, "description": "Another one."}}
                await asyncio.to_thread(server.call, "PUT", f"workflows/{document['name']}", changed)
        await asyncio.to_thread(server.call, "POST", f"executions/{execution_id}/cancel", {"reason": "enough"})
        await ears.wait_for("notifications/resources/updated", uri)
        await ears.wait_for("notifications/resources/updated", other)
    assert ("notifications/resources/updated", "penstock://workflows/greet") not in ears.heard


async def test_through_a_pipe_a_session_hears_everything_too(server: LiveServer, tmp_path: Path) -> None:
    ears = Ears()
    command, *arguments = piped_command("mcp", "--server", server.url)
    parameters = StdioServerParameters(
        command=command,
        args=arguments,
        cwd=str(tmp_path),
        env={**os.environ, "PENSTOCK_API_KEY": server.key},
    )
    async with Client(parameters, mode="legacy", message_handler=ears.hear) as client:
        await create(server, "heard_through_a_pipe", expose={"tool": True})
        await ears.wait_for("notifications/tools/list_changed")
        # The server closes the stream of this call before it answers.
        result = await client.call_tool("nap")
    assert result.structured_content["status"].startswith("waiting")


async def test_a_task_is_told_whenever_it_stands_otherwise(server: LiveServer) -> None:
    execution_id = await start(server, "refund")
    async with listened(server, {"taskIds": [execution_id]}) as messages:
        assert (await soon(anext(messages)))["params"]["notifications"] == {"taskIds": [execution_id]}
        asks = await until(messages, lambda message: message["params"].get("status") == "input_required")
        (question,) = asks[-1]["params"]["inputRequests"].values()
        assert question["params"]["message"] == "May I refund this order?"
        await asyncio.to_thread(server.call, "POST", f"executions/{execution_id}/cancel", {"reason": "enough"})
        last = (await until(messages, lambda message: message["params"].get("status") == "cancelled"))[-1]
    assert last["method"] == "notifications/tasks"
    assert last["params"]["taskId"] == execution_id
    assert last["params"]["ttlMs"] is None
    assert last["params"]["_meta"] == {SUBSCRIPTION_ID: "listen-1"}


async def test_what_a_child_asks_is_told_by_the_task_of_its_parent(server: LiveServer) -> None:
    nodes = [
        {"id": "go", "type": "wait", "signal": "go"},
        {"id": "child", "type": "subworkflow", "workflow": "refund", "input": {}},
        {"id": "done", "type": "end", "output": "${ .child }"},
    ]
    await create(server, "asks_through_a_child", nodes=nodes)
    execution_id = await start(server, "asks_through_a_child")
    async with listened(server, {"taskIds": [execution_id]}) as messages:
        await until(messages, lambda message: message["params"].get("status") == "working")
        await asyncio.to_thread(server.call, "POST", f"executions/{execution_id}/signals", {"name": "go"})
        asks = await until(messages, lambda message: message["params"].get("status") == "input_required")
    (question,) = asks[-1]["params"]["inputRequests"].values()
    assert question["params"]["message"] == "May I refund this order?"


async def test_a_revoked_key_ends_streams_and_sessions(server: LiveServer) -> None:
    made = new_key(server, "*", name="short-lived")
    key = made["secret"]
    async with listened(server, {"toolsListChanged": True}, key=key) as messages:
        await soon(anext(messages))
        begun = await asyncio.to_thread(new_session, server, key=key)
        async with (
            httpx2.AsyncClient(headers=begun, timeout=SECONDS_MAX) as http,
            http.stream("GET", f"{server.url}/mcp") as response,
        ):
            assert response.status_code == 200
            await asyncio.to_thread(server.call, "POST", f"keys/{made['key']['id']}/revoke", {})
            last = await until(messages, lambda message: "result" in message)
            assert last[-1]["result"]["_meta"][SUBSCRIPTION_ID] == "listen-1"
            async with asyncio.timeout(SECONDS_MAX):
                assert [line async for line in response.aiter_lines() if line.startswith("data: {")] == []

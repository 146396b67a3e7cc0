"""Agents as A2A agents: the official SDK's client talks to a real server over a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import AgentCardResolutionError
from a2a.helpers.proto_helpers import get_data_parts, get_text_parts, new_data_part, new_text_part
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError

from tests.fixtures.model_server import Asked, ModelServer, Says, model_server
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX, until

pytestmark = pytest.mark.anyio
NUMBERS = count(1)
COMPLETED = TaskState.TASK_STATE_COMPLETED
CANCELED, ASKING = TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_INPUT_REQUIRED
FIND: dict[str, Any] = {
    "penstock": "v1",
    "name": "find_order",
    "input": {"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": {"order": "${ .input.order }", "status": "sent"}}],
}


def agent(name: str, *tools: Any, a2a: bool = True, **block: Any) -> dict[str, Any]:
    return {
        "penstock": "v1",
        "name": name,
        "title": f"The {name}",
        "description": "Answers questions about orders.",
        "agent": {"model": "fast", "instructions": "Help.", "tools": list(tools), **block},
        **({"expose": {"a2a": True}} if a2a else {}),
    }


ERASE: dict[str, Any] = {**FIND, "name": "erase_order", "governance": {"risk": "high"}}
DOCUMENTS = (
    FIND,
    ERASE,
    agent("eraser", "workflow:erase_order"),
    agent("finder", "workflow:find_order"),
    agent("asker", ask_user=True),
    agent("careful", {"tool": "workflow:find_order", "approvers": {"group": "leads"}}),
    agent(
        "total", output_schema={"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
    ),
    agent("private", a2a=False),
)


def says(asked: Asked) -> Says:
    """Look up, ask, fail or answer, as the prompt says."""
    messages = asked.body["messages"]
    returned = [message["content"] for message in messages if message["role"] == "tool"]
    if returned:
        return Says(f"It said {returned[-1]}")
    names = [tool["function"]["name"] for tool in asked.body.get("tools", [])]
    if "ask_user" in names:
        return Says("", calls=(("ask_user", {"question": "Which order?"}),))
    if "erase_order" in names:
        return Says("", calls=(("erase_order", {"order": "A-1"}),))
    if "find_order" in names:
        return Says("", calls=(("find_order", {"order": "A-1"}),))
    return Says('{"total": 3}')


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server(otherwise=says) as running:
        yield running


@pytest.fixture(scope="module")
def server(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("a2a")
    fast = {"provider": "openai-compatible", "model": "tiny", "base_url": model.url}
    (folder / "penstock.yaml").write_text(json.dumps({"models": {"fast": fast}}), encoding="utf-8")
    with serving(folder) as running:
        for document in DOCUMENTS:
            running.call("POST", "workflows", {"document": document})
        yield running


def key(server: LiveServer, kind: str, *scopes: str, **more: Any) -> str:
    made = server.call("POST", "keys", {"name": f"id-{next(NUMBERS)}", "kind": kind, "scopes": list(scopes), **more})
    return str(made["secret"])


@asynccontextmanager
async def connected(
    server: LiveServer, name: str, *, secret: str | None = None, streaming: bool = False
) -> AsyncIterator[tuple[Client, AgentCard]]:
    headers = {"Authorization": f"Bearer {secret or server.key}"}
    async with httpx.AsyncClient(headers=headers, timeout=SECONDS_MAX) as http:
        card = await A2ACardResolver(http, f"{server.url}/a2a/{name}").get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)
        yield client, card


async def sent(client: Client, *parts: Part, task: Task | None = None, message_id: str = "") -> list[StreamResponse]:
    message = Message(
        message_id=message_id or f"id-{next(NUMBERS)}",
        role=Role.ROLE_USER,
        parts=parts,
        task_id=task.id if task is not None else "",
        context_id=task.context_id if task is not None else "",
    )
    return [event async for event in client.send_message(SendMessageRequest(message=message))]


async def task_after(client: Client, *parts: Part, task: Task | None = None, message_id: str = "") -> Task:
    [event] = await sent(client, *parts, task=task, message_id=message_id)
    return event.task


def text_of(task: Task) -> str:
    [artifact] = task.artifacts
    return "".join(get_text_parts(artifact.parts))


async def test_the_card_of_an_agent_says_what_it_is_and_where_it_is(server: LiveServer) -> None:
    async with connected(server, "finder") as (_, card):
        assert (card.name, card.description) == ("The finder", "Answers questions about orders.")
        [interface] = card.supported_interfaces
        assert (interface.url, interface.protocol_binding) == (f"{server.url}/a2a/finder", "JSONRPC")
        assert [skill.id for skill in card.skills] == ["finder"]
        assert card.capabilities.streaming
        assert "bearer" in card.security_schemes


async def test_an_agent_that_is_not_exposed_and_a_caller_that_is_not_known_get_no_card(server: LiveServer) -> None:
    for name, secret in (("private", None), ("nobody", None), ("find_order", None), ("finder", "pen_no")):
        with pytest.raises(AgentCardResolutionError):
            async with connected(server, name, secret=secret):
                pass
    assert server.request("POST", "/a2a/private", {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}).status == 404
    assert server.request("POST", "/a2a/finder", {}, key="").status == 401
    assert server.request("GET", "/a2a/finder").status == 405


def test_the_well_known_address_has_the_card_of_the_only_agent(server: LiveServer) -> None:
    several = server.request("GET", "/.well-known/agent-card.json")
    assert several.status == 404
    assert "/a2a/finder" in several.json()["hint"]
    other = key(server, "service", "*", tenant="globex")
    assert server.request("GET", "/.well-known/agent-card.json", key=other).status == 404
    server.call("POST", "workflows", {"document": agent("lonely")}, key=other)
    card = server.call("GET", "/.well-known/agent-card.json", key=other)
    assert card["supportedInterfaces"][0]["url"].endswith("/a2a/lonely")
    assert server.request("GET", "/a2a/lonely/.well-known/agent-card.json").status == 404


async def test_a_message_becomes_a_task_that_is_an_execution(server: LiveServer) -> None:
    async with connected(server, "finder") as (client, _):
        task = await task_after(client, new_text_part("Where is it?"), new_data_part({"shop": "Acme"}))
        assert task.status.state == COMPLETED
        assert "A-1" in text_of(task)
        assert server.call("GET", f"executions/{task.id}")["input"]["context"] == {"shop": "Acme"}
        again = await client.get_task(GetTaskRequest(id=task.id))
        assert again == task


async def test_a_message_that_is_sent_again_begins_no_second_task(server: LiveServer) -> None:
    async with connected(server, "finder") as (client, _):
        first = await task_after(client, new_text_part("Where is it?"), message_id="m-1")
        second = await task_after(client, new_text_part("Where is it?"), message_id="m-1")
        assert first.id == second.id


async def test_a_stream_has_the_task_its_artifact_and_its_end(server: LiveServer) -> None:
    async with connected(server, "finder", streaming=True) as (client, _):
        events = await sent(client, new_text_part("Where is it?"))
        kinds = [event.WhichOneof("payload") for event in events]
        assert kinds[0] == "task"
        if len(kinds) > 1:  # else it had ended before the stream began
            assert kinds[1:] == ["artifact_update", "status_update"]
            assert events[-1].status_update.status.state == COMPLETED
            assert "A-1" in "".join(get_text_parts(events[1].artifact_update.artifact.parts))


async def test_a_result_that_is_no_text_is_data(server: LiveServer) -> None:
    async with connected(server, "total") as (client, _):
        task = await task_after(client, new_text_part("How much?"))
        [artifact] = task.artifacts
        assert get_data_parts(artifact.parts) == [{"total": 3}]


async def test_a_question_is_input_required_and_the_next_message_answers_it(server: LiveServer) -> None:
    async with connected(server, "asker", secret=key(server, "person", "*")) as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
        assert task.status.state == ASKING
        assert get_text_parts(task.status.message.parts) == ["Which order?"]
        done = await task_after(client, new_text_part("A-7"), task=task)
        assert (done.id, done.status.state) == (task.id, COMPLETED)
        assert "A-7" in text_of(done)
        with pytest.raises(A2AError, match="asks nothing"):
            await sent(client, new_text_part("And now?"), task=done)


async def test_no_agent_answers_a_question_or_approves_a_call(server: LiveServer) -> None:
    """The key says who a client is: what an agent sends answers nothing, whatever it says."""
    robot = key(server, "agent", "*", "approve:leads")
    for name, parts in (("asker", [new_text_part("A-7")]), ("careful", [new_data_part({"approved": True})])):
        async with connected(server, name, secret=robot) as (client, _):
            task = await task_after(client, new_text_part("Where is it?"))
            assert task.status.state == ASKING
            with pytest.raises(A2AError, match="person"):
                await sent(client, *parts, task=task)
            assert (await client.get_task(GetTaskRequest(id=task.id))).status.state == ASKING


async def test_a_call_that_the_gate_holds_is_input_required_and_no_message_approves_it(server: LiveServer) -> None:
    async with connected(server, "eraser", secret=key(server, "person", "*")) as (client, _):
        task = await task_after(client, new_text_part("Erase it."))
        assert task.status.state == ASKING
        [text] = get_text_parts(task.status.message.parts)
        [data] = get_data_parts(task.status.message.parts)
        [held] = data["held_calls"]
        assert held["operation"] == "workflow:erase_order"
        assert held["draft_id"] in text
        with pytest.raises(A2AError, match="asks nothing"):
            await sent(client, new_text_part("yes"), task=task)
        boss = key(server, "person", "draft:*", "approve:*")
        server.call("POST", f"drafts/{held['draft_id']}/approve", {}, key=boss)

        async def completed() -> bool:
            return (await client.get_task(GetTaskRequest(id=task.id))).status.state == COMPLETED

        await until(completed)


@pytest.mark.parametrize(("said", "approved"), [("yes", True), ("no", False), ({"approved": True}, True)])
async def test_a_lead_approves_a_call_in_so_many_words(server: LiveServer, said: Any, approved: bool) -> None:
    async with connected(server, "careful") as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
    assert task.status.state == ASKING
    lead = key(server, "person", "agent:read", "execution:*", "approve:leads")
    async with connected(server, "careful", secret=lead) as (client, _):
        with pytest.raises(InvalidParamsError):
            await sent(client, new_text_part("I think that this may be fine"), task=task)
        part = new_text_part(said) if isinstance(said, str) else new_data_part(said)
        done = await task_after(client, part, task=task)
        assert done.status.state == COMPLETED
        assert ("TOOL_CALL_DECLINED" in text_of(done)) is not approved


async def test_a_task_is_cancelled_and_belongs_to_its_agent_and_tenant(server: LiveServer) -> None:
    async with connected(server, "asker") as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
        assert (await client.cancel_task(CancelTaskRequest(id=task.id))).status.state == CANCELED
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="gone"))
    async with connected(server, "finder") as (client, _):
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=task.id))


async def test_scopes_hold_as_everywhere(server: LiveServer) -> None:
    reader = key(server, "service", "agent:read")
    async with connected(server, "finder", secret=reader) as (client, _):
        with pytest.raises(A2AError, match="agent:run"):
            await sent(client, new_text_part("Where is it?"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        ({"method": "GetTask"}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": 7}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}, -32602),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "SendMessage",
                "params": {
                    "message": {"messageId": "x", "role": "ROLE_USER", "parts": [{"url": "file:///etc/passwd"}]}
                },
            },
            -32005,
        ),
    ],
)
def test_what_cannot_be_answered_is_an_error_of_the_wire(server: LiveServer, body: Any, code: int) -> None:
    assert server.call("POST", "/a2a/finder", body)["error"]["code"] == code


def test_another_version_of_the_protocol_is_refused(server: LiveServer) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}
    assert server.call("POST", "/a2a/finder", body, headers={"A2A-Version": "2.1"})["error"]["code"] == -32009


async def test_a_stream_of_a_client_that_leaves_ends_and_the_task_goes_on(server: LiveServer) -> None:
    async with connected(server, "asker", secret=key(server, "person", "*"), streaming=True) as (client, _):
        message = Message(message_id=f"id-{next(NUMBERS)}", role=Role.ROLE_USER, parts=[new_text_part("Where is it?")])
        events = client.send_message(SendMessageRequest(message=message))
        first = await asyncio.wait_for(anext(aiter(events)), SECONDS_MAX)
        task_id = first.task.id
    async with connected(server, "asker", secret=key(server, "person", "*")) as (client, _):

        async def asks() -> bool:
            return (await client.get_task(GetTaskRequest(id=task_id))).status.state == ASKING

        await until(asks)

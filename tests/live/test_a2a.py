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
from a2a.compat.v0_3 import types as types_v03
from a2a.helpers.proto_helpers import get_data_parts, get_text_parts, new_data_part, new_text_part
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict

from tests.fixtures.model_server import Asked, Breaks, ModelServer, Says, model_server
from tests.live.rest.servers import LiveServer, serving
from tests.unit.operations.receiver import receiving
from tests.waiting import SECONDS_MAX, until

pytestmark = pytest.mark.anyio
NUMBERS = count(1)
COMPLETED, WORKING = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_WORKING
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
    agent("writer"),
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
    settings = {"models": {"fast": fast}, "webhooks": {"allow_private_addresses": True}}
    (folder / "penstock.yaml").write_text(json.dumps(settings), encoding="utf-8")
    with serving(folder) as running:
        for document in DOCUMENTS:
            running.call("POST", "workflows", {"document": document})
        yield running


def key(server: LiveServer, kind: str, *scopes: str, **more: Any) -> str:
    made = server.call("POST", "keys", {"name": f"id-{next(NUMBERS)}", "kind": kind, "scopes": list(scopes), **more})
    return str(made["secret"])


@asynccontextmanager
async def connected(
    server: LiveServer, name: str, *, secret: str | None = None, streaming: bool = False, version: str = "1.0"
) -> AsyncIterator[tuple[Client, AgentCard]]:
    headers = {"Authorization": f"Bearer {secret or server.key}"}
    async with httpx.AsyncClient(headers=headers, timeout=SECONDS_MAX) as http:
        card = await A2ACardResolver(http, f"{server.url}/a2a/{name}").get_agent_card()
        chosen = AgentCard()
        chosen.CopyFrom(card)
        del chosen.supported_interfaces[:]
        chosen.supported_interfaces.extend(one for one in card.supported_interfaces if one.protocol_version == version)
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(chosen)
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
        offered = [(item.url, item.protocol_binding, item.protocol_version) for item in card.supported_interfaces]
        assert offered == [(f"{server.url}/a2a/finder", "JSONRPC", version) for version in ("1.0", "0.3")]
        assert [skill.id for skill in card.skills] == ["finder"]
        assert card.capabilities.streaming
        assert card.capabilities.push_notifications
        assert card.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    plain = server.call("GET", "/a2a/finder/.well-known/agent-card.json")
    legacy = types_v03.AgentCard.model_validate(plain)
    assert (legacy.url, legacy.protocol_version) == (f"{server.url}/a2a/finder", "0.3.0")
    assert legacy.capabilities.push_notifications
    schemes = legacy.security_schemes or {}
    assert isinstance(schemes["bearer"].root, types_v03.HTTPAuthSecurityScheme)


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


def heard(events: list[StreamResponse]) -> str:
    """The artifact that a client has after some events: pieces are appended, and others begin it anew."""
    text = ""
    for event in events:
        if event.WhichOneof("payload") == "artifact_update":
            piece = "".join(get_text_parts(event.artifact_update.artifact.parts))
            text = text + piece if event.artifact_update.append else piece
    return text


def state_of(event: StreamResponse) -> TaskState:
    return event.task.status.state if event.HasField("task") else event.status_update.status.state


async def test_a_stream_has_the_task_its_calls_its_artifact_and_its_end(server: LiveServer) -> None:
    async with connected(server, "finder", streaming=True) as (client, _):
        events = await sent(client, new_text_part("Where is it?"))
    assert [event.WhichOneof("payload") for event in (events[0], events[-1])] == ["task", "status_update"]
    assert state_of(events[-1]) == COMPLETED
    said = [data for event in events for data in get_data_parts(event.status_update.status.message.parts)]
    assert [(call["tool"]["name"], call["tool"]["phase"]) for call in said] == [
        ("workflow:find_order", "begun"),
        ("workflow:find_order", "done"),
    ]
    pieces = [event.artifact_update for event in events if event.WhichOneof("payload") == "artifact_update"]
    assert len(pieces) > 1, "the text came before its end"  # a slow reader gets several pieces as one
    assert [piece.append for piece in pieces] == [False, *[True] * (len(pieces) - 1)]
    assert [piece.last_chunk for piece in pieces] == [*[False] * (len(pieces) - 1), True]
    assert heard(events).startswith("It said")
    assert "A-1" in heard(events)


async def test_a_stream_that_is_cut_is_gone_on_with_and_the_run_went_on(server: LiveServer, model: ModelServer) -> None:
    model.go_on.clear()
    model.script.append(Breaks("The parcel is on its way to you.", "waits"))
    message = Message(message_id=f"id-{next(NUMBERS)}", role=Role.ROLE_USER, parts=[new_text_part("Where is it?")])
    first: list[StreamResponse] = []
    async with connected(server, "writer", streaming=True) as (client, _):
        async for event in client.send_message(SendMessageRequest(message=message)):
            first.append(event)
            if heard(first):
                break
    task_id = first[0].task.id
    async with connected(server, "writer", streaming=True) as (client, _):
        then: list[StreamResponse] = []
        async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
            then.append(event)
            if heard(then) == "The parcel is on its way to you.":
                model.go_on.set()
        assert then[0].task.status.state == WORKING
        assert state_of(then[-1]) == COMPLETED
        assert heard(then) == "The parcel is on its way to you."
        assert text_of(await client.get_task(GetTaskRequest(id=task_id))) == heard(then)
        with pytest.raises(UnsupportedOperationError):
            [event async for event in client.subscribe(SubscribeToTaskRequest(id=task_id))]
        again = await sent(client, new_text_part("Where is it?"), message_id=message.message_id)
        assert (again[0].task.id, state_of(again[-1])) == (task_id, COMPLETED)


async def test_a_stream_ends_with_the_question_and_its_answer_has_a_stream_of_its_own(server: LiveServer) -> None:
    async with connected(server, "asker", secret=key(server, "person", "*"), streaming=True) as (client, _):
        asked = await sent(client, new_text_part("Where is it?"))
        assert state_of(asked[-1]) == ASKING
        assert get_text_parts(asked[-1].status_update.status.message.parts) == ["Which order?"]
        answered = await sent(client, new_text_part("A-7"), task=asked[0].task)
        assert answered[0].task.id == asked[0].task.id
        assert state_of(answered[-1]) == COMPLETED
        assert "A-7" in heard(answered)
        with pytest.raises(A2AError, match="is not waiting for an answer"):
            await sent(client, new_text_part("And now?"), task=asked[0].task)


async def test_a_result_that_is_no_text_is_data(server: LiveServer) -> None:
    async with connected(server, "total") as (client, _):
        task = await task_after(client, new_text_part("How much?"))
        [artifact] = task.artifacts
        assert get_data_parts(artifact.parts) == [{"total": 3}]


async def test_a_result_that_is_no_text_is_read_as_json_while_it_is_written(
    server: LiveServer, model: ModelServer
) -> None:
    model.go_on.clear()
    model.script.append(Breaks("", "waits", calls=(("answer", {"total": 12345}),)))
    message = Message(message_id=f"id-{next(NUMBERS)}", role=Role.ROLE_USER, parts=[new_text_part("How much?")])
    events: list[StreamResponse] = []
    async with connected(server, "total", streaming=True) as (client, _):
        async for event in client.send_message(SendMessageRequest(message=message)):
            events.append(event)
            if heard(events) == '{"total": 12345}':
                model.go_on.set()
    pieces = [event.artifact_update for event in events if event.WhichOneof("payload") == "artifact_update"]
    assert len(pieces) > 1, "the text came before its end, for which the model waited"
    assert (pieces[-1].append, pieces[-1].last_chunk) == (False, True)
    assert get_data_parts(pieces[-1].artifact.parts) == [{"total": 12345}]
    assert state_of(events[-1]) == COMPLETED


async def test_a_question_is_input_required_and_the_next_message_answers_it(server: LiveServer) -> None:
    async with connected(server, "asker", secret=key(server, "person", "*")) as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
        assert task.status.state == ASKING
        assert get_text_parts(task.status.message.parts) == ["Which order?"]
        done = await task_after(client, new_text_part("A-7"), task=task)
        assert (done.id, done.status.state) == (task.id, COMPLETED)
        assert "A-7" in text_of(done)
        with pytest.raises(A2AError, match="is not waiting for an answer"):
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
        with pytest.raises(A2AError, match="is not waiting for an answer"):
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


async def test_tasks_are_listed_in_pages_with_filters(server: LiveServer) -> None:
    server.call("POST", "workflows", {"document": agent("lister", ask_user=True)})
    async with connected(server, "lister", secret=key(server, "person", "*")) as (client, _):
        tasks = [await task_after(client, new_text_part("Where is it?")) for _ in range(3)]
        await client.cancel_task(CancelTaskRequest(id=tasks[0].id))
        done = await task_after(client, new_text_part("A-7"), task=tasks[1])
        newest_first = [done.id, tasks[0].id, tasks[2].id]
        first = await client.list_tasks(ListTasksRequest(page_size=2))
        assert ([task.id for task in first.tasks], first.total_size, first.page_size) == (newest_first[:2], 3, 2)
        rest = await client.list_tasks(ListTasksRequest(page_size=2, page_token=first.next_page_token))
        assert ([task.id for task in rest.tasks], rest.next_page_token) == (newest_first[2:], "")
        assert [task.status.state for task in first.tasks] == [COMPLETED, CANCELED]
        assert not first.tasks[0].artifacts
        [shown] = (await client.list_tasks(ListTasksRequest(status=COMPLETED, include_artifacts=True))).tasks
        assert text_of(shown) == text_of(done)
        asking = await client.list_tasks(ListTasksRequest(status=ASKING))
        assert [(task.id, task.status.state) for task in asking.tasks] == [(tasks[2].id, ASKING)]
        assert get_text_parts(asking.tasks[0].status.message.parts) == ["Which order?"]
        assert not (await client.list_tasks(ListTasksRequest(status=WORKING))).tasks
        since = ListTasksRequest(status_timestamp_after=first.tasks[1].status.timestamp)
        assert [task.id for task in (await client.list_tasks(since)).tasks] == newest_first[:2]
        assert [task.id for task in (await client.list_tasks(ListTasksRequest(context_id=done.id))).tasks] == [done.id]
        assert not (await client.list_tasks(ListTasksRequest(context_id="gone"))).tasks


async def test_a_list_has_the_tasks_of_the_agent_and_tenant_for_those_who_may_read_them(server: LiveServer) -> None:
    async with connected(server, "finder") as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
        assert task.id in [listed.id for listed in (await client.list_tasks(ListTasksRequest())).tasks]
    async with connected(server, "total") as (client, _):
        assert task.id not in [listed.id for listed in (await client.list_tasks(ListTasksRequest())).tasks]
        assert not (await client.list_tasks(ListTasksRequest(context_id=task.id))).tasks
    other = key(server, "service", "*", tenant="initech")
    server.call("POST", "workflows", {"document": agent("finder")}, key=other)
    async with connected(server, "finder", secret=other) as (client, _):
        assert (await client.list_tasks(ListTasksRequest())).total_size == 0
        assert not (await client.list_tasks(ListTasksRequest(context_id=task.id))).tasks
    async with connected(server, "finder", secret=key(server, "service", "agent:*")) as (client, _):
        with pytest.raises(A2AError, match="execution:read"):
            await client.list_tasks(ListTasksRequest())


async def test_a_receiver_is_told_of_a_task_with_its_token_and_forgotten_at_the_end(server: LiveServer) -> None:
    person = key(server, "person", "*")
    async with receiving() as receiver, connected(server, "asker", secret=person) as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
        config = TaskPushNotificationConfig(task_id=task.id, id="mine", url=receiver.url, token="tok-4711")
        made = await client.create_task_push_notification_config(config)
        assert (made.task_id, made.id, made.url, made.token) == (task.id, "mine", receiver.url, "")
        named = {"task_id": task.id, "id": "mine"}
        assert await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**named)) == made
        listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert list((await client.list_task_push_notification_configs(listing)).configs) == [made]
        asked = StreamResponse()
        ParseDict((await receiver.events(1))[0], asked)
        assert (asked.status_update.task_id, state_of(asked)) == (task.id, ASKING)
        await task_after(client, new_text_part("A-7"), task=task)
        done = StreamResponse()
        ParseDict((await receiver.events(2))[-1], done)
        assert state_of(done) == COMPLETED
        assert "A-7" in text_of(done.task)
        assert {request.headers["x-a2a-notification-token"] for request in receiver.received} == {"tok-4711"}

        async def is_forgotten() -> bool:
            return not (await client.list_task_push_notification_configs(listing)).configs

        await until(is_forgotten)


async def test_a_receiver_is_told_of_a_call_that_is_held_after_it_asked_to_be(
    server: LiveServer, model: ModelServer
) -> None:
    """The run does not move when its call is held; only who may see the call is told of it."""
    model.go_on.clear()
    model.script.append(Breaks("", "waits", calls=(("erase_order", {"order": "A-1"}),)))
    message = Message(message_id=f"id-{next(NUMBERS)}", role=Role.ROLE_USER, parts=[new_text_part("Erase it.")])
    request = SendMessageRequest(message=message)
    request.configuration.return_immediately = True
    person, robot = key(server, "person", "*"), key(server, "agent", "*")
    async with (
        receiving() as receiver,
        receiving() as other,
        connected(server, "eraser", secret=person, streaming=True) as (client, _),
        connected(server, "eraser", secret=robot) as (stranger, _),
    ):
        before, task_id = len(model.asked), ""
        async for event in client.send_message(request):
            task_id = event.task.id
            await until(lambda: len(model.asked) > before)  # as a stream, because somebody reads it
            break
        await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task_id, id="mine", url=receiver.url)
        )
        await stranger.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task_id, id="theirs", url=other.url)
        )
        await receiver.events(1)
        await other.events(1)
        model.go_on.set()
        asked = StreamResponse()
        ParseDict((await receiver.events(2))[-1], asked)
        assert (asked.status_update.task_id, state_of(asked)) == (task_id, ASKING)
        [data] = get_data_parts(asked.status_update.status.message.parts)
        [held] = data["held_calls"]
        assert held["operation"] == "workflow:erase_order"
        boss = key(server, "person", "draft:*", "approve:*")
        server.call("POST", f"drafts/{held['draft_id']}/approve", {}, key=boss)
        done = StreamResponse()
        ParseDict((await receiver.events(3))[-1], done)
        assert state_of(done) == COMPLETED
        told = await other.events(2)
        assert "TASK_STATE_INPUT_REQUIRED" not in json.dumps(told), "an agent does not see the held calls of others"
        assert "task" in told[-1]


async def test_a_message_says_who_is_told_and_a_configuration_is_deleted(server: LiveServer) -> None:
    async with receiving() as receiver, connected(server, "finder") as (client, _):
        message = Message(message_id=f"id-{next(NUMBERS)}", role=Role.ROLE_USER, parts=[new_text_part("Where is it?")])
        request = SendMessageRequest(message=message)
        request.configuration.return_immediately = True
        request.configuration.task_push_notification_config.url = receiver.url
        [begun] = [event async for event in client.send_message(request)]

        def is_told() -> bool:
            return any("artifacts" in request.event.get("task", {}) for request in receiver.received)

        await receiver.until(is_told)
        assert {"x-a2a-notification-token", "authorization"}.isdisjoint(receiver.received[0].headers)
        assert receiver.received[-1].event["task"]["id"] == begun.task.id
    async with connected(server, "asker") as (client, _):
        task = await task_after(client, new_text_part("Where is it?"))
        await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task.id, url="https://example.com/")
        )
        named = {"task_id": task.id, "id": task.id}
        await client.delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(**named))
        with pytest.raises(A2AError, match=f"run {task.id} has no notification {task.id}"):
            await client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**named))
        for url in ("http://169.254.169.254/latest", "ftp://example.com/", "https://a:b@example.com/", "x"):
            with pytest.raises(InvalidParamsError):
                await client.create_task_push_notification_config(TaskPushNotificationConfig(task_id=task.id, url=url))
    listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
    async with connected(server, "finder") as (client, _):
        with pytest.raises(TaskNotFoundError):
            await client.list_task_push_notification_configs(listing)
    async with connected(server, "asker", secret=key(server, "service", "agent:*", "execution:*")) as (client, _):
        with pytest.raises(A2AError, match="webhook:read"):
            await client.list_task_push_notification_configs(listing)


async def test_a_client_of_version_03_sends_streams_answers_and_is_told(server: LiveServer) -> None:
    person = key(server, "person", "*")
    async with receiving() as receiver, connected(server, "asker", secret=person, version="0.3") as (client, _):
        task = await task_after(client, new_text_part("Where is it?"), new_data_part({"shop": "Acme"}))
        assert task.status.state == ASKING
        assert get_text_parts(task.status.message.parts) == ["Which order?"]
        config = TaskPushNotificationConfig(task_id=task.id, id="mine", url=receiver.url, token="tok-4711")
        assert (await client.create_task_push_notification_config(config)).url == receiver.url
        listing = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        assert [one.id for one in (await client.list_task_push_notification_configs(listing)).configs] == ["mine"]
        done = await task_after(client, new_text_part("A-7"), task=task)
        assert (await client.get_task(GetTaskRequest(id=task.id))) == done
        assert "A-7" in text_of(done)
        await receiver.until(lambda: any("artifacts" in request.event for request in receiver.received))
        told = types_v03.Task.model_validate(receiver.received[-1].event)
        assert (told.id, told.status.state) == (task.id, types_v03.TaskState.completed)
        with pytest.raises(TaskNotFoundError):
            await client.cancel_task(CancelTaskRequest(id="gone"))
    async with connected(server, "finder", streaming=True, version="0.3") as (client, _):
        events = await sent(client, new_text_part("Where is it?"))
        assert (events[0].task.status.state, state_of(events[-1])) == (WORKING, COMPLETED)
        assert "A-1" in heard(events)


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
        ({"jsonrpc": "2.0", "id": 1, "method": "TasksList"}, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 101}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageToken": "x"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"status": "done"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"statusTimestampAfter": "today"}}, -32602),
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


@pytest.mark.parametrize(
    ("version", "method", "code"),
    [
        ("2.1", "GetTask", -32009),
        ("0.3", "GetTask", -32009),
        ("1.0", "tasks/get", -32009),
        ("0.2", "tasks/get", -32009),
        ("1.0.3", "GetTask", -32001),
        ("0.3.0", "tasks/get", -32001),
        ("", "tasks/get", -32001),
        ("", "GetTask", -32001),
    ],
)
def test_a_version_is_refused_unless_it_is_that_of_the_method(
    server: LiveServer, version: str, method: str, code: int
) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "x"}}
    assert server.call("POST", "/a2a/finder", body, headers={"A2A-Version": version})["error"]["code"] == code


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


def test_a_mistyped_state_is_refused_with_the_nearest_one(server: LiveServer) -> None:
    params = {"status": "TASK_STATE_COMPLETE"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": params}
    message = server.call("POST", "/a2a/finder", request)["error"]["message"]
    assert message == "`status`: unknown value `TASK_STATE_COMPLETE`; did you mean `TASK_STATE_COMPLETED`?"

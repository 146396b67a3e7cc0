"""Agents on a live server, with a model that speaks the wire: streams over REST and MCP, sessions, tasks, questions."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pytest

from tests.fixtures.model_server import Asked, Breaks, ModelServer, Reply, Says, model_server
from tests.live.mcp.clients import ERAS, connected, soon
from tests.live.mcp.test_tasks import ask
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.agents import FIND, agent
from tests.waiting import SECONDS_MAX, wait_until

ANSWER = "Order A-1 was sent on Monday."
REPORT = {"status": "sent", "day": "Monday"}
REPORT_SCHEMA = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}


def scripted(asked: Asked) -> Reply:
    """Looks an order up, asks the user, or answers; as the last message wants it."""
    last = asked.body["messages"][-1]
    if any(tool["function"]["name"] == "answer" for tool in asked.body.get("tools", [])):
        return Breaks("", "waits", calls=(("answer", REPORT),))
    if last["role"] == "tool":
        return Says(ANSWER)
    text = str(last["content"])
    if "ask me" in text:
        return Says("", calls=(("ask_user", {"question": "Which order?"}),))
    if "look" in text:
        return Says("I look it up.", calls=(("find_order", {"id": "A-1"}),))
    if "slowly" in text:
        return Breaks(ANSWER, "waits")
    said = sum(message["role"] == "assistant" for message in asked.body["messages"])
    return Says(f"Answer {said + 1}.")


@dataclass
class World:
    server: LiveServer
    model: ModelServer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("agents")
    with model_server(otherwise=scripted) as model:
        fast = {"provider": "openai-compatible", "model": "tiny-1", "base_url": model.url}
        (folder / "penstock.yaml").write_text(json.dumps({"models": {"fast": fast}}), encoding="utf-8")
        with serving(folder, "--config", "penstock.yaml") as server:
            server.call("POST", "workflows", {"document": FIND})
            document = agent("workflow:find_order", ask_user=True, document={"expose": {"tool": True}})
            server.call("POST", "workflows", {"document": document})
            reporter = agent(name="reporter", output_schema=REPORT_SCHEMA, document={"expose": {"tool": True}})
            server.call("POST", "workflows", {"document": reporter})
            yield World(server, model)


Events = Iterator[tuple[str, dict[str, Any]]]


def _events(response: http.client.HTTPResponse) -> Events:
    name = ""
    for line in response:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


@contextmanager
def stream(server: LiveServer, method: str, path: str, body: Any = None) -> Iterator[Events]:
    """The events that a request is answered with, as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS_MAX)
    headers = {"Authorization": f"Bearer {server.key}", "Accept": "text/event-stream"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with closing(connection):
        connection.request(method, f"/api/v0/{path}", None if body is None else json.dumps(body), headers)
        with closing(connection.getresponse()) as response:
            assert (response.status, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            yield _events(response)


def written(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """The texts that deltas wrote, one for each turn."""
    texts: dict[Any, str] = {}
    for name, data in events:
        if name == "delta":
            key = (data["node_id"], data["visit"])
            texts[key] = texts.get(key, "")[: data["offset"]] + data["text"]
    return list(texts.values())


@pytest.mark.parametrize(
    ("path", "member"), [("agents/support/messages", "message"), ("agents/support/executions", "prompt")]
)
def test_events_of_the_model_and_its_tools_come_as_they_happen(world: World, path: str, member: str) -> None:
    with stream(world.server, "POST", path, {member: "Please look."}) as coming:
        events = list(coming)
    names = [name for name, _ in events]
    assert names[0] == "begun"
    assert names[-1] == "complete"
    assert written(events) == ["I look it up.", ANSWER]
    turns = [data["text"] for name, data in events if name == "turn"]
    assert turns == ["I look it up.", ANSWER]
    tools = [(data["phase"], data["name"]) for name, data in events if name == "tool"]
    assert tools == [("begun", "workflow:find_order"), ("done", "workflow:find_order")]
    begun = next(data for name, data in events if name == "tool")
    assert begun["arguments"] == {"id": "A-1"}
    # Whoever connects later gets the recorded turns, and no deltas.
    with stream(world.server, "GET", f"executions/{events[0][1]['execution_id']}/stream") as coming:
        again = list(coming)
    assert [data["text"] for name, data in again if name == "turn"] == turns
    assert "delta" not in {name for name, _ in again}


def test_a_piece_is_read_before_the_answer_is_complete_also_by_who_comes_later(world: World) -> None:
    def whole(events: Events) -> str:
        text = ""
        while text != ANSWER:
            name, data = next(events)
            assert name != "turn"
            text = text[: data["offset"]] + data["text"] if name == "delta" else text
        return text

    world.model.go_on.clear()
    with stream(world.server, "POST", "agents/support/messages", {"message": "Say it slowly."}) as first:
        _, begun = next(first)
        assert whole(first) == ANSWER
        with stream(world.server, "GET", f"executions/{begun['execution_id']}/stream") as later:
            assert whole(later) == ANSWER
            world.model.go_on.set()
            assert [name for name, _ in first][-1] == "complete"
            assert [name for name, _ in later][-1] == "complete"


def test_an_answer_with_a_schema_is_read_before_it_is_complete(world: World) -> None:
    world.model.go_on.clear()
    with stream(world.server, "POST", "agents/reporter/executions", {"prompt": "Where is it?"}) as coming:
        events: list[tuple[str, dict[str, Any]]] = []
        for event in coming:
            events.append(event)
            if not world.model.go_on.is_set() and "Monday" in "".join(written(events)):
                assert "turn" not in {name for name, _ in events}
                world.model.go_on.set()
    assert [json.loads(text) for text in written(events)] == [REPORT]
    assert [data["text"] for name, data in events if name == "turn"] == written(events)
    assert next(data["output"] for name, data in events if name == "output") == REPORT


@pytest.mark.parametrize("era", ERAS)
def test_a_client_with_a_progress_token_reads_an_answer_with_a_schema_along(world: World, era: str) -> None:
    heard: list[str] = []
    world.model.go_on.clear()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        if "Monday" in "".join(heard):
            world.model.go_on.set()

    async def work() -> Any:
        async with connected(world.server, era, toolset="all") as client:
            return await client.call_tool("workflow:reporter", {"prompt": "Where?"}, progress_callback=on_progress)

    result = asyncio.run(soon(work()))
    assert not result.is_error, result
    assert result.structured_content["output"] == REPORT
    assert json.dumps(REPORT) in "".join(heard)


def test_cancelling_leaves_the_model_and_keeps_the_session(world: World) -> None:
    world.model.go_on.clear()
    world.model.left.clear()
    with stream(world.server, "POST", "agents/support/messages", {"message": "Say it slowly."}) as events:
        _, begun = next(events)
        next(data for name, data in events if name == "delta")
        world.server.call("POST", f"executions/{begun['execution_id']}/cancel", {})
        assert [name for name, _ in events][-1] == "complete"
    wait_until(world.model.left.is_set)
    body = {"message": "Hello?", "session_id": begun["session_id"], "sync": True}
    answer = world.server.call("POST", "agents/support/messages", body)
    assert answer["output"] == {"text": "Answer 1."}
    # Nothing of the half answer is in the conversation.
    assert ANSWER not in json.dumps(world.model.asked[-1].body)


def test_an_answer_that_is_not_asked_for_as_a_stream_is_json(world: World) -> None:
    answer = world.server.call("POST", "agents/support/messages", {"message": "Hello?", "sync": True})
    assert (answer["status"], answer["turn"], answer["output"]) == ("completed", 1, {"text": "Answer 1."})
    body = {"message": "And?", "session_id": answer["session_id"], "sync": True}
    assert world.server.call("POST", "agents/support/messages", body)["output"] == {"text": "Answer 2."}
    listed = world.server.call("GET", "sessions")["items"]
    assert answer["session_id"] in {item["id"] for item in listed}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["agent.message", "agent.execute", "workflow:support"])
def test_a_client_with_a_progress_token_reads_along(world: World, era: str, name: str) -> None:
    heard: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async def work() -> Any:
        async with connected(world.server, era, toolset="all") as client:
            asked = {"message": "Please look."} if name == "agent.message" else {"prompt": "Please look."}
            given = asked if name == "workflow:support" else {"agent_id": "support", "sync": True, **asked}
            return await client.call_tool(name, given, progress_callback=on_progress)

    result = asyncio.run(soon(work()))
    assert not result.is_error, result
    assert ANSWER in str(result.structured_content)
    assert ANSWER in "".join(heard)
    assert any(line.endswith("workflow:find_order begun") for line in heard), heard
    assert any(line.endswith("workflow:find_order done") for line in heard), heard
    if name == "agent.message":
        session = result.structured_content["session_id"]
        assert f"Session {session}" in result.content[0].text


def test_a_question_of_a_session_is_asked_over_mcp(world: World) -> None:
    async def answer(context: Any, params: Any) -> types.ElicitResult:
        assert "Which order?" in params.message
        return types.ElicitResult(action="accept", content={"answer": "A-1"})

    async def work() -> Any:
        async with connected(world.server, toolset="all", elicitation_callback=answer) as client:
            given = {"agent_id": "support", "message": "Please ask me.", "sync": True}
            return await client.call_tool("agent.message", given)

    result = asyncio.run(soon(work()))
    assert result.structured_content["output"] == {"text": ANSWER}
    assert result.structured_content["session_id"]


def test_work_for_an_agent_becomes_a_task_of_a_client_that_takes_tasks(world: World) -> None:
    world.model.go_on.clear()
    given = {"agent_id": "support", "message": "Say it slowly.", "sync": True}
    made = ask(world.server, "tools/call", name="agent.message", arguments=given, path="/mcp?toolset=all")
    assert "result" in made, made
    made = made["result"]
    assert made["resultType"] == "task", made
    world.model.go_on.set()

    def ended() -> Any:
        found = ask(world.server, "tasks/get", taskId=made["taskId"])["result"]
        return found if found["status"] == "completed" else None

    found = _until(ended)
    assert ANSWER in json.dumps(found)


def _until(look: Callable[[], Any]) -> Any:
    found: list[Any] = []

    def is_there() -> bool:
        value = look()
        found.append(value)
        return value is not None

    wait_until(is_there)
    return found[-1]

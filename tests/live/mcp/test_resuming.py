"""Streams of the handshake era are left and gone on with; the server closes them itself, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import mcp_types as types
import pytest

from tests.live.mcp.clients import connected, new_session
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(streaming_server: LiveServer) -> LiveServer:
    """A server with the workflows, which closes the stream of a call soon."""
    return streaming_server


def call(server: LiveServer, session: dict[str, str], tool: str, number: int, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    answer = server.request("POST", "/mcp", body, headers=session)
    assert answer.status == 200
    return answer.body


def events_of(body: bytes) -> list[dict[str, str]]:
    """The events of a stream that has ended, without signs of life."""
    found = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            found.append({name.removesuffix(":"): value for name, _, value in lines})
    return found


def resumed(server: LiveServer, session: dict[str, str], last: str) -> Any:
    return server.request("GET", "/mcp", headers={**session, "Last-Event-ID": last})


def test_a_closed_stream_is_gone_on_with_until_the_answer(server: LiveServer) -> None:
    session = new_session(server)
    body = call(server, session, "nap", 7)
    first = events_of(body)
    assert first[0]["data"] == ""
    assert first[0]["retry"] == "50"
    assert all("result" not in event["data"] for event in first)
    bodies, last = [body], first[0]["id"]
    events: list[dict[str, str]] = []
    while not any('"result"' in event["data"] for event in events):
        more = resumed(server, session, last)
        assert more.status == 200
        bodies.append(more.body)
        events = events_of(more.body)
        last = events[-1]["id"]
    assert any(b": ping" in body for body in bodies)
    answer = json.loads(events[-1]["data"])
    assert answer["id"] == 7
    assert answer["result"]["structuredContent"]["status"].startswith("waiting")
    again = events_of(resumed(server, session, first[0]["id"]).body)
    assert json.loads(again[-1]["data"]) == answer
    assert events_of(resumed(server, session, last).body) == []


def test_events_of_another_session_mean_nothing(server: LiveServer) -> None:
    mine, other = new_session(server), new_session(server)
    events = events_of(call(server, mine, "greet", 1, name="Ada"))
    assert "Hello, Ada" in events[-1]["data"]
    for session, last in ((other, events[0]["id"]), (mine, "999999999"), (mine, "one"), (mine, "9" * 5000)):
        answer = resumed(server, session, last)
        assert answer.status == 400
        assert b"Last-Event-ID" in answer.body


def test_who_cannot_come_back_is_not_sent_away(server: LiveServer) -> None:
    (event,) = events_of(call(server, new_session(server, version="2025-06-18"), "nap", 1))
    assert '"result"' in event["data"]


async def test_streams_of_one_session_do_not_mix(server: LiveServer) -> None:
    session = new_session(server)
    names = [f"caller {number}" for number in range(8)]
    bodies = await asyncio.gather(
        *(asyncio.to_thread(call, server, session, "greet", number, name=name) for number, name in enumerate(names))
    )
    for number, body in enumerate(bodies):
        answer = json.loads(events_of(body)[-1]["data"])
        assert answer["id"] == number
        assert answer["result"]["structuredContent"]["output"] == {"text": f"Hello, caller {number}"}


async def test_a_client_hears_progress_and_the_answer_whatever_is_closed(server: LiveServer) -> None:
    heard: list[float] = []
    came_back = asyncio.Event()

    async def sending(request: httpx2.Request) -> None:
        if "last-event-id" in request.headers:
            came_back.set()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        # A person takes their time: meanwhile the stream that asked is closed, and the client comes back for more.
        await asyncio.wait_for(came_back.wait(), SECONDS_MAX)
        return types.ElicitResult(action="accept", content={"approved": True})

    async with connected(server, "legacy", elicitation_callback=answer, sending=sending) as client:
        result = await client.call_tool("refund_order", {"order": "A-1"}, progress_callback=hear)
    assert result.structured_content["output"]["approved"] is True
    assert heard


async def test_only_one_stream_of_a_session_is_for_what_answers_nothing(server: LiveServer) -> None:
    session = new_session(server)
    async with (
        httpx2.AsyncClient(headers=session, timeout=SECONDS_MAX) as http,
        http.stream("GET", f"{server.url}/mcp") as response,
    ):
        assert response.status_code == 200
        assert (await http.get(f"{server.url}/mcp")).status_code == 409


def test_who_has_no_session_here_is_told_to_begin_one_before_it_subscribes(server: LiveServer) -> None:
    session = {**new_session(server), "Mcp-Session-Id": "from-before-the-restart"}
    params = {"uri": "penstock://workflows/greet"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params}
    (event,) = events_of(server.request("POST", "/mcp", body, headers=session).body)
    error = json.loads(event["data"])["error"]
    assert error["code"] == -32600
    assert "initialize again" in error["message"]

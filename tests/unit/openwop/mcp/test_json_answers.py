"""How clients of the OpenWOP mount are spoken to, and streams that become one document."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from penstock.openwop.mcp.json_answers import as_json_only, spoken_to

pytestmark = pytest.mark.anyio
BOTH = "application/json, text/event-stream"


def request(body: bytes, method: str = "POST", **headers: str) -> tuple[Scope, Receive]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    waiting = [body[: len(body) // 2], body[len(body) // 2 :]]

    async def receive() -> Message:
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    return {"type": "http", "method": method, "headers": named}, receive


@pytest.mark.parametrize(
    ("headers", "method", "spoken"),
    [
        ({"accept": "application/json"}, "tools/list", "plain"),
        ({}, "tools/list", "plain"),
        ({"accept": "*/*"}, "initialize", "plain"),
        ({"accept": BOTH}, "tools/list", "plain"),
        ({"accept": BOTH}, "initialize", "strict"),
        ({"accept": BOTH, "mcp_session_id": "s"}, "tools/list", "strict"),
        ({"accept": BOTH, "mcp_protocol_version": "2025-06-18"}, "tools/list", "strict"),
        ({"accept": "application/json", "mcp_protocol_version": "2025-06-18"}, "tools/list", "plain"),
        ({"accept": BOTH, "mcp_protocol_version": "2026-07-28"}, "tools/list", "strict"),
        ({"accept": "application/json", "mcp_protocol_version": "2026-07-28"}, "tools/list", "strict_json"),
        ({"accept": "application/json", "mcp_protocol_version": "2031-01-01"}, "tools/list", "strict_json"),
        (
            {"mcp_protocol_version": "2026-07-28", "mcp_method": "subscriptions/listen"},
            "subscriptions/listen",
            "strict",
        ),
    ],
)
async def test_headers_say_how_a_client_is_spoken_to(headers: dict[str, str], method: str, spoken: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode()
    scope, receive = request(body, **headers)
    found, again = await spoken_to(scope, receive)
    assert found == spoken
    came, more = b"", True
    while more:
        message = await again()
        came, more = came + message["body"], message["more_body"]
    assert came == body


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"method": 1}'])
async def test_what_is_no_handshake_is_plain(body: bytes) -> None:
    assert (await spoken_to(*request(body, accept=BOTH)))[0] == "plain"


async def test_a_stream_or_the_end_of_a_session_is_looked_for_where_there_are_some() -> None:
    assert (await spoken_to(*request(b"", "GET", accept="text/event-stream")))[0] == "strict"
    assert (await spoken_to(*request(b"", "DELETE", mcp_session_id="s")))[0] == "strict"
    assert (await spoken_to(*request(b"", "GET", accept="text/html")))[0] == "plain"


async def answered(kind: str, *parts: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """What a client hears that takes JSON only, of an application that answers with some bytes."""
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert dict(scope["headers"])[b"accept"] == BOTH.encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send(message: Message) -> None:
        heard.append(message)

    scope, receive = request(b"", accept="application/json")
    await as_json_only(app, scope, receive, send)
    return dict(heard[0]["headers"]), b"".join(message["body"] for message in heard[1:])


def event(message: dict[str, Any]) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


async def test_of_a_stream_only_the_answer_is_heard() -> None:
    progress = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    stream = b": ping\n\n" + progress + event(answer)
    for cut in range(len(stream)):
        headers, body = await answered("text/event-stream", stream[:cut], stream[cut:])
        assert json.loads(body) == answer, cut
        assert headers[b"content-type"] == b"application/json"
        assert headers[b"content-length"] == str(len(body)).encode()


async def test_what_is_no_stream_is_passed_on() -> None:
    headers, body = await answered("application/json", b'{"jsonrpc"', b': "2.0"}')
    assert (headers[b"content-type"], body) == (b"application/json", b'{"jsonrpc": "2.0"}')

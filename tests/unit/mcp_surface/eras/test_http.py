"""Both eras over one pipe, or one revision alone; and over HTTP nobody who takes nothing is waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.types import Message, Scope

from penstock.base import limits
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER_STATE
from penstock.mcp_surface.eras.http import SdkHttpBackend
from penstock.mcp_surface.eras.stdio import serve_pipe
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.server import McpServer
from penstock.mcp_surface.wire.pipe import Pipe
from penstock.operations.gate.context import GateLimits, Principal, Services
from penstock.operations.gate.open_streams import OpenStreams
from tests.waiting import SECONDS_MAX

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HANDS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
_REQUESTS: list[dict[str, Any]] = [
    {"id": "look", "method": "server/discover", "params": {"_meta": _META}},
    {"id": "hands", "method": "initialize", "params": _HANDS},
    {"id": "plain", "method": "ping"},
]


def _ignored(caller: object, answer: object) -> None:
    """For engines whose refusals nobody keeps."""


def _unlimited(caller: object, state: object, message: object) -> None:
    """No message comes too soon."""


class OneByOne:
    """A client that says the next thing when the last one was answered."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self._answered = asyncio.Event()

    async def lines(self) -> AsyncIterator[bytes]:
        for request in _REQUESTS:
            yield json.dumps({"jsonrpc": "2.0", **request}).encode()
            await asyncio.wait_for(self._answered.wait(), SECONDS_MAX)
            self._answered.clear()

    async def write(self, line: bytes) -> None:
        answer = json.loads(line)
        self.answers[answer["id"]] = answer
        self._answered.set()


@pytest.mark.parametrize(
    ("only", "answered", "agreed"),
    [
        (None, {"look", "hands", "plain"}, "2025-11-25"),
        ("2026-07-28", {"look"}, None),
        ("2025-03-26", {"hands", "plain"}, "2025-03-26"),
    ],
)
def test_a_client_hears_which_revision_there_is(only: str | None, answered: set[str], agreed: str | None) -> None:
    async def talk() -> dict[str, Any]:
        client = OneByOne()
        server = McpServer("test", version="1")
        await asyncio.wait_for(serve_pipe(server, cast("Pipe", client), lambda: None, only), SECONDS_MAX)
        return client.answers

    answers = asyncio.run(talk())
    assert {name for name, answer in answers.items() if "result" in answer} == answered
    refused = [answer["error"] for answer in answers.values() if "error" in answer]
    assert {(error["code"], *error["data"]["supported"]) for error in refused} == ({(-32022, only)} if only else set())
    if agreed is not None:
        assert answers["hands"]["result"]["protocolVersion"] == agreed


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_who_takes_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(limits, "STREAM_SEND_SECONDS_MAX", 0.01)
    somebody = Principal(id="somebody", tenant="default", kind="service", scopes=frozenset())
    services = SimpleNamespace(open_streams=OpenStreams(), limits=GateLimits())
    request = _REQUESTS[1] if version == "2025-11-25" else _REQUESTS[0]
    headers = {
        "host": "localhost",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": version,
        "mcp-method": request["method"],
    }
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": {CALLER_STATE: Caller(principal=somebody, request_id="1")},
    }
    sent: list[Message] = []
    came = [{"type": "http.request", "body": json.dumps({"jsonrpc": "2.0", **request}).encode()}]

    async def receive() -> Message:
        if not came:
            await asyncio.Event().wait()
        return came.pop()

    async def stuck(message: Message) -> None:
        sent.append(message)
        await asyncio.Event().wait()

    async def talk() -> None:
        engine = SdkHttpBackend(
            McpServer("test", version="1"), McpOptions(), cast("Services", services), _ignored, _unlimited
        )
        await engine.start()
        await asyncio.wait_for(engine.handle(somebody, scope, receive, stuck), SECONDS_MAX)
        await engine.stop()

    asyncio.run(talk())
    assert [message["type"] for message in sent] == ["http.response.start"]

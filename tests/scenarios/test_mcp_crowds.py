"""Many clients at once, or one that takes more than its share: nobody else is kept out, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from penstock.app.serving.server import ServerOptions
from penstock.base import limits
from penstock.mcp_surface.options import McpOptions
from penstock.operations.gate.context import GateLimits
from tests.live.mcp.workflows import ASK, GREET, NAP
from tests.unit.rest.conftest import Client, opened
from tests.waiting import SECONDS_MAX, until

pytestmark = pytest.mark.anyio
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
_HEADERS = {"accept": "application/json, text/event-stream", "host": "127.0.0.1"}


@dataclass(slots=True)
class Line:
    """One request that stays open, over a connection that can be hung up."""

    client: Client
    headers: dict[str, str]
    body: Any = None
    method: str = "POST"
    key: str | None = None
    path: str = "/mcp"
    status: int = 0
    heard: bytes = b""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def open(self) -> Line:
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        headers = {"authorization": f"Bearer {self.key or self.client.key}", **_HEADERS, **self.headers}
        parts = [b"" if self.body is None else json.dumps(self.body).encode()]

        async def receive() -> Message:
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            self.heard += message.get("body", b"")
            self._arrived.set()

        target, _, query = self.path.partition("?")
        scope = {
            "type": "http",
            "method": self.method,
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.encode(), value.encode())
                for name, value in [*headers.items(), ("content-type", "application/json")]
            ],
            "client": ("127.0.0.1", 5_000),
            "state": {},
        }
        await self.client.app(scope, receive, send)

    async def until(self, text: str) -> None:
        """Wait until something was heard."""
        async with asyncio.timeout(SECONDS_MAX):
            while text.encode() not in self.heard:
                self._arrived.clear()
                await self._arrived.wait()

    async def ended(self) -> bytes:
        """Wait for the end."""
        assert self._task is not None
        async with asyncio.timeout(SECONDS_MAX):
            await self._task
        return self.heard

    async def hang_up(self) -> None:
        self._gone.set()
        await self.ended()


@asynccontextmanager
async def crowded(folder: Path, **options: Any) -> AsyncIterator[Client]:
    limits_of_gate = GateLimits(read_per_minute=10**6, write_per_minute=10**6)
    chosen = McpOptions(**{"patience_seconds": 20, **options})
    async with opened(folder, ServerOptions(mcp=chosen, gate=limits_of_gate)) as client:
        for document in (GREET, ASK, NAP):
            assert (await client("POST", "workflows", {"document": document})).status == 201
        yield client


async def another_key(client: Client) -> str:
    made = await client("POST", "keys", {"name": "other", "scopes": ["*"]})
    secret: str = made.json()["secret"]
    return secret


async def new_session(client: Client, *, key: str | None = None, **capabilities: Any) -> dict[str, str]:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "t", "version": "1"},
    }
    begun = await client("POST", "/mcp", rpc("initialize", params), headers=_HEADERS, key=key)
    assert begun.status == 200, begun
    session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await client("POST", "/mcp", told, headers={**_HEADERS, **session}, key=key)).status == 202
    return session


def rpc(method: str, params: dict[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def modern(method: str, params: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return headers, rpc(method, {**params, "_meta": _META})


def calling(tool: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return rpc("tools/call", {"name": tool, "arguments": arguments}, number)


async def test_who_waits_for_a_person_keeps_nobody_out(tmp_path: Path) -> None:
    async with crowded(tmp_path, max_concurrent_requests=4) as client:
        session = await new_session(client, elicitation={})
        asked = [Line(client, session, calling("refund_order", number)) for number in range(1, 9)]
        for line in asked:
            line.open()
            await line.until("elicitation/create")
        assert client.gate.services.open_streams.count == len(asked)
        listed = await client("POST", "/mcp", rpc("tools/list", number=99), headers={**_HEADERS, **session})
        assert listed.status == 200
        ended = await client("DELETE", "/mcp", headers={**_HEADERS, **session})
        assert ended.status == 200
        for line in asked:
            await line.hang_up()
        await until(lambda: client.gate.services.open_streams.count == 0)


async def test_one_key_cannot_take_every_place(tmp_path: Path) -> None:
    async with crowded(tmp_path, max_concurrent_requests=4) as client:
        other = await another_key(client)
        session = await new_session(client)
        naps = [Line(client, session, calling("nap", number)).open() for number in range(1, 5)]
        await until(lambda: sum(client.gate.rate_limiter._in_flight.values()) == len(naps))
        headers, body = modern("tools/list", {})
        refused = await client("POST", "/mcp", body, headers={**_HEADERS, **headers})
        assert refused.status == 503
        served = await client("POST", "/mcp", body, headers={**_HEADERS, **headers}, key=other)
        assert served.status == 200
        for line in naps:
            await line.hang_up()


async def test_a_header_that_nobody_looks_at_takes_no_call_out_of_the_count(tmp_path: Path) -> None:
    """In the older era `Mcp-Method` says nothing: what a request is stands in its body."""
    async with crowded(tmp_path, max_concurrent_requests=4) as client:
        headers = {**await new_session(client), "mcp-method": "subscriptions/listen"}
        naps = [Line(client, headers, calling("nap", number)).open() for number in range(1, 5)]
        await until(lambda: sum(client.gate.rate_limiter._in_flight.values()) == len(naps))
        refused = await client("POST", "/mcp", rpc("tools/list"), headers={**_HEADERS, **headers})
        assert refused.status == 503
        for line in naps:
            await line.hang_up()


async def test_who_only_listens_keeps_nobody_out(tmp_path: Path) -> None:
    async with crowded(tmp_path, max_concurrent_requests=4) as client:
        listening = [Line(client, *modern("subscriptions/listen", {"notifications": {}})) for _ in range(8)]
        for line in listening:
            line.open()
            await line.until("subscriptions/acknowledged")
        headers, body = modern("tools/list", {})
        assert (await client("POST", "/mcp", body, headers={**_HEADERS, **headers})).status == 200
        for line in listening:
            await line.hang_up()


async def test_one_key_cannot_have_every_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MCP_SESSIONS_PER_KEY", 3)
    async with crowded(tmp_path) as client:
        other = await another_key(client)
        kept = await new_session(client, key=other)
        sessions = [await new_session(client) for _ in range(5)]
        stream = Line(client, sessions[0], method="GET").open()
        await stream.ended()
        assert stream.status == 404
        # The oldest of its own have gone; nothing is lost with them, and others keep theirs.
        for session, key in ((sessions[0], None), (sessions[-1], None), (kept, other)):
            listed = await client("POST", "/mcp", rpc("tools/list"), headers={**_HEADERS, **session}, key=key)
            assert listed.status == 200
        living = Line(client, kept, method="GET", key=other).open()
        await until(lambda: living.status == 200)
        await living.hang_up()


async def test_nothing_is_left_of_two_hundred_who_came_and_went(tmp_path: Path) -> None:
    async with crowded(tmp_path) as client:
        streams, telemetry = client.gate.services.open_streams, client.gate.services.telemetry
        session = await new_session(client, elicitation={})
        await (Line(client, *modern("subscriptions/listen", {"notifications": {}})).open()).hang_up()
        gc.collect()
        before = len(asyncio.all_tasks())
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["penstock://workflows/greet"]}
        for turn in range(5):
            lines = [Line(client, *modern("subscriptions/listen", {"notifications": wanted})).open() for _ in range(20)]
            lines += [Line(client, {}, method="GET", path="/mcp/sse").open() for _ in range(10)]
            lines += [
                Line(client, session, calling("refund_order", 100 * turn + number)).open() for number in range(10)
            ]
            for line in lines:
                await until(lambda line=line: line.status == 200 and bool(line.heard))  # type: ignore[misc]
            assert streams.count >= 30
            for line in lines:
                await line.hang_up()
        assert (await client("DELETE", "/mcp", headers={**_HEADERS, **session})).status == 200
        await until(lambda: streams.count == 0 and telemetry.mcp_listening == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)

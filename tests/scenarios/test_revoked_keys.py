"""What is under way with a key ends within a second once the key is revoked, in every era, and whoever revokes it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from tests.live.mcp.clients import listening, new_session
from tests.live.mcp.workflows import NAP
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX, until
from tests.zygote import run_command

# A second, and what a busy machine takes to tell; without being told, streams look every fifteen seconds.
SECONDS_TO_END = 10.0
BOTH = "application/json, text/event-stream"
NEWEST = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with serving(tmp_path_factory.mktemp("revoked"), PENSTOCK_SERVER_STREAMS_HEARTBEAT_SECONDS="60") as running:
        running.call("POST", "workflows", {"document": NAP})
        yield running


@dataclass
class Exchange:
    """One request that stays open, and when it ended."""

    name: str
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    heard: bytes = b""
    status: int = 0
    ended_at: float = 0.0

    async def run(self, http: httpx2.AsyncClient) -> None:
        try:
            async with http.stream(self.method, self.path, headers=self.headers, json=self.body) as response:
                self.status = response.status_code
                async for part in response.aiter_raw():
                    self.heard += part
        except httpx2.HTTPError as error:
            self.heard += f"cut off: {type(error).__name__}".encode()
        self.ended_at = time.monotonic()


def calling(version: str, **headers: str) -> dict[str, Any]:
    """A call of a tool that sleeps for an hour."""
    params: dict[str, Any] = {"name": "nap", "arguments": {}}
    if version == "2026-07-28":
        params["_meta"] = NEWEST
        headers = {"Mcp-Method": "tools/call", "Mcp-Name": "nap"}
    sent = {"Accept": BOTH, "MCP-Protocol-Version": version, **headers}
    return {"headers": sent, "body": {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}}


def exchanges(session: dict[str, str], execution_id: str) -> list[Exchange]:
    """Everything that can be under way with a key."""
    listens, listened = listening({"toolsListChanged": True})
    api = f"/api/v0/executions/{execution_id}"
    return [
        Exchange("a wait", "GET", f"{api}/wait?wait_seconds=50"),
        Exchange(
            "a call that waits", "POST", "/api/v0/workflows/nap/executions", body={"sync": True, "wait_seconds": 50}
        ),
        Exchange("an update", "POST", f"{api}/updates", body={"name": "go", "wait_seconds": 50}),
        Exchange("a stream", "GET", f"{api}/stream"),
        Exchange("a call of the newest era", "POST", "/mcp", **calling("2026-07-28")),
        Exchange("a call in a session", "POST", "/mcp", **calling("2025-11-25", **session)),
        Exchange(
            "a call without a session", "POST", "/mcp", **calling("2025-11-25", **{"Mcp-Session-Id": "elsewhere"})
        ),
        Exchange("a stream of a session", "GET", "/mcp", headers={**session, "Accept": "text/event-stream"}),
        Exchange("a stream of the first era", "GET", "/mcp/sse", headers={"Accept": "text/event-stream"}),
        Exchange("a subscription", "POST", "/mcp", headers=listens, body=listened),
    ]


async def under_way(server: LiveServer, begun: list[Exchange], runs: int) -> None:
    """Wait until all of them are at it: calls at work, and streams that said something or are open."""
    streams = [item for item in begun if "stream" in item.name or "subscription" in item.name]

    async def are_at_it() -> bool:
        found = await asyncio.to_thread(server.call, "GET", "executions?status=waiting_timer&limit=100")
        return len(found["items"]) == runs and all(item.status == 200 for item in streams)

    await until(are_at_it)


def revoke(server: LiveServer, key_id: str, *, elsewhere: bool) -> None:
    if not elsewhere:
        server.call("POST", f"keys/{key_id}/revoke", {})
        return
    command = ["key", "revoke", key_id, "--db", "penstock.db"]
    done = run_command(command, folder=server.folder, environment=dict(os.environ), timeout_seconds=SECONDS_MAX)
    assert done.returncode == 0, done


@pytest.mark.parametrize("elsewhere", [False, True], ids=["by the server itself", "by another process"])
def test_everything_that_is_under_way_with_a_revoked_key_ends_within_a_second(
    server: LiveServer, elsewhere: bool
) -> None:
    made = server.call("POST", "keys", {"name": "short-lived", "scopes": ["*"]})
    execution = server.call("POST", "workflows/nap/executions", {})["execution_id"]
    before = len(server.call("GET", "executions?limit=100")["items"])
    session = new_session(server, key=made["secret"])

    async def test() -> None:
        begun = exchanges(session, execution)
        headers = {"Authorization": f"Bearer {made['secret']}"}
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(
            base_url=server.url, headers=headers, timeout=SECONDS_MAX, limits=limits, trust_env=False
        ) as http:
            tasks = [asyncio.create_task(item.run(http)) for item in begun]
            await under_way(server, begun, before + 4)
            assert not [item.name for item in begun if item.ended_at], begun
            await asyncio.to_thread(revoke, server, made["key"]["id"], elsewhere=elsewhere)
            revoked_at = time.monotonic()
            await asyncio.wait(tasks, timeout=SECONDS_MAX)
        late = {item.name: item.ended_at - revoked_at for item in begun if item.ended_at - revoked_at > SECONDS_TO_END}
        assert not late, late
        for item in begun[:3]:
            assert (item.status, b"KEY_REVOKED" in item.heard) == (401, True), item
        told = {item.name for item in begun if b"KEY_REVOKED" in item.heard}
        assert told >= {"a stream", "a call of the newest era", "a call without a session"}

    asyncio.run(test())
    # The key is gone; what was begun with it goes on.
    assert server.call("GET", f"executions/{execution}")["status"] == "waiting_timer"
    runs = server.call("GET", "executions?limit=100")["items"]
    assert {item["status"] for item in runs} == {"waiting_timer"}

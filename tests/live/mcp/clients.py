"""The SDK's own client on a live server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX

__all__ = [
    "ERAS",
    "SUBSCRIPTION_ID",
    "connected",
    "error_of",
    "listened",
    "listening",
    "new_session",
    "old_stream",
    "soon",
    "text_of",
]

T = TypeVar("T")
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
ERAS = ("2026-07-28", "legacy")


@asynccontextmanager
async def connected(
    server: LiveServer,
    era: str = "auto",
    *,
    key: str | None = None,
    toolset: str | None = None,
    sending: Callable[[httpx2.Request], Awaitable[None]] | None = None,
    **more: Any,
) -> AsyncIterator[Client]:
    """A client with a key, in an era; `sending` sees each request."""
    headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
    query = "" if toolset is None else f"?toolset={toolset}"
    hooks = {"request": [] if sending is None else [sending]}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS_MAX, event_hooks=hooks) as http:
        transport = streamable_http_client(f"{server.url}/mcp{query}", http_client=http)
        async with Client(transport, mode=era, **more) as client:
            yield client


def text_of(result: Any) -> str:
    """The text of a result."""
    return "\n".join(item.text for item in result.content if item.type == "text")


def error_of(result: Any) -> Any:
    """The error of a result, for programs."""
    return result.meta["penstock/error"]


def new_session(
    server: LiveServer,
    *,
    key: str | None = None,
    version: str = "2025-11-25",
    capabilities: dict[str, Any] | None = None,
) -> dict[str, str]:
    """The headers of a session of the handshake era that has just begun."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {server.key if key is None else key}",
    }
    about = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": about}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    begun = server.request("POST", "/mcp", body, headers=headers)
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": version, **headers}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert server.request("POST", "/mcp", told, headers=session).status == 202
    return session


def listening(notifications: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers and the body of `subscriptions/listen`."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    params = {"_meta": _META, "notifications": notifications}
    return headers, {"jsonrpc": "2.0", "id": "listen-1", "method": "subscriptions/listen", "params": params}


@asynccontextmanager
async def listened(
    server: LiveServer, notifications: dict[str, Any], *, key: str | None = None
) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The messages of a stream, as they are on the wire."""
    headers, body = listening(notifications)
    headers["Authorization"] = f"Bearer {server.key if key is None else key}"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SECONDS_MAX) as http,
        http.stream("POST", f"{server.url}/mcp", json=body) as response,
    ):
        assert response.status_code == 200

        async def messages() -> AsyncIterator[dict[str, Any]]:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))

        yield messages()


@asynccontextmanager
async def old_stream(
    server: LiveServer, key: str, *, path: str = "/mcp/sse"
) -> AsyncIterator[tuple[str, AsyncIterator[str]]]:
    """A stream of an old client: where to post, and its lines."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS_MAX) as http,
        http.stream("GET", f"{server.url}{path}") as response,
    ):
        assert response.status_code == 200
        lines = response.aiter_lines()
        async for line in lines:
            if line.startswith("data: "):
                yield line.removeprefix("data: "), lines
                return


async def sample(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """What a model says that knows one thing."""
    content = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=content, model="theirs", stop_reason="endTurn")


async def list_roots(context: Any) -> types.ListRootsResult:
    """The folder of a client."""
    return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///home/ada"}]})


async def soon(work: Awaitable[T]) -> T:
    """What somebody waits for, if it does not take for ever."""
    async with asyncio.timeout(SECONDS_MAX):
        return await work

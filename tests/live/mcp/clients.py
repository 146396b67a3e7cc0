"""The SDK's own client on a live server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.live.rest.servers import LiveServer

__all__ = ["ERAS", "connected", "text_of"]

ERAS = ("2026-07-28", "legacy")


@asynccontextmanager
async def connected(
    server: LiveServer, era: str = "auto", *, key: str | None = None, toolset: str | None = None, **more: Any
) -> AsyncIterator[Client]:
    """A client with a key, in an era."""
    headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
    query = "" if toolset is None else f"?toolset={toolset}"
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{server.url}/mcp{query}", http_client=http)
        async with Client(transport, mode=era, **more) as client:
            yield client


def text_of(result: Any) -> str:
    """The text of a result."""
    return "\n".join(item.text for item in result.content if item.type == "text")

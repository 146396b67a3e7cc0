"""The Python SDK 2.x, in an era.

python python_v2.py observe|hang http:auto|sse:auto|http:legacy|… URL       with the key in PENSTOCK_API_KEY
python python_v2.py observe|hang pipe:auto|pipe:legacy|… COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from observing import Answer, answer_of, headers, observe


class _Connected:
    def __init__(self, client: Client) -> None:
        self._client = client

    def server(self) -> Any:
        info = self._client.server_info
        return {"name": info.name, "revision": self._client.protocol_version}

    async def names(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        return answer_of(await self._client.call_tool(name, arguments))


async def main(mode: str, kind: str, *where: str) -> None:
    """Connect and observe."""
    transport_kind, _, era = kind.partition(":")
    async with AsyncExitStack() as stack:
        if transport_kind == "pipe":
            started = StdioServerParameters(command=where[0], args=list(where[1:]), env=dict(os.environ))
            transport: Any = stdio_client(started)
        elif transport_kind == "sse":
            transport = sse_client(where[0], headers=headers())
        else:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers(), timeout=60))
            transport = streamable_http_client(where[0], http_client=http)
        await observe(mode, _Connected(await stack.enter_async_context(Client(transport, mode=era))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

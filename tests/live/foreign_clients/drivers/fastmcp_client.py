"""FastMCP's client, whose errors are exceptions.

python fastmcp_client.py observe|hang http URL           with the key in PENSTOCK_API_KEY
python fastmcp_client.py observe|hang pipe COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from observing import Answer, answer_of, headers, observe


class _Connected:
    def __init__(self, client: Any) -> None:
        self._client = client

    def server(self) -> Any:
        return None

    async def names(self) -> list[str]:
        return [tool.name for tool in await self._client.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        return answer_of(await self._client.call_tool(name, arguments))


async def main(mode: str, kind: str, *where: str) -> None:
    """Connect and observe."""
    if kind == "pipe":
        transport: Any = StdioTransport(command=where[0], args=list(where[1:]), env=dict(os.environ))
    else:
        transport = StreamableHttpTransport(where[0], headers=headers())
    async with Client(transport) as client:
        await observe(mode, _Connected(client))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

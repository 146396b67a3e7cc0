"""The Python SDK 1.x.

python python_v1.py observe|hang http|sse URL           with the key in PENSTOCK_API_KEY
python python_v1.py observe|hang pipe COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from observing import Answer, answer_of, headers, observe


class _Session:
    def __init__(self, session: ClientSession, begun: Any) -> None:
        self._session = session
        self._begun = begun

    def server(self) -> Any:
        return {"name": self._begun.serverInfo.name, "revision": self._begun.protocolVersion}

    async def names(self) -> list[str]:
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        return answer_of(await self._session.call_tool(name, arguments))


def _transport(kind: str, where: list[str]) -> Any:
    if kind == "pipe":
        return stdio_client(StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ)))
    return (sse_client if kind == "sse" else streamablehttp_client)(where[0], headers=headers())


async def main(mode: str, kind: str, *where: str) -> None:
    """Connect and observe."""
    async with _transport(kind, list(where)) as streams, ClientSession(streams[0], streams[1]) as session:
        await observe(mode, _Session(session, await session.initialize()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

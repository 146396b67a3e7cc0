"""MCP servers of the OpenAI Agents SDK.

python openai_agents_server.py observe|hang http|sse URL       with the key in PENSTOCK_API_KEY
python openai_agents_server.py observe|hang pipe COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from observing import Answer, answer_of, headers, observe


class _Server:
    def __init__(self, server: Any) -> None:
        self._server = server

    def server(self) -> Any:
        return None

    async def names(self) -> list[str]:
        return [tool.name for tool in await self._server.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        return answer_of(await self._server.call_tool(name, arguments))


async def main(mode: str, kind: str, *where: str) -> None:
    """Connect and observe."""
    if kind == "pipe":
        parameters: Any = {"command": where[0], "args": list(where[1:]), "env": dict(os.environ)}
        server: Any = MCPServerStdio(parameters, client_session_timeout_seconds=60)
    else:
        parameters = {"url": where[0], "headers": headers()}
        made = MCPServerSse if kind == "sse" else MCPServerStreamableHttp
        server = made(parameters, client_session_timeout_seconds=60)
    async with server:
        await observe(mode, _Server(server))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

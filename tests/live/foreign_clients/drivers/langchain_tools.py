"""Tools of LangChain, made by its adapters: what counts is the message that the model would get.

python langchain_tools.py observe|hang http URL           with the key in PENSTOCK_API_KEY
python langchain_tools.py observe|hang pipe COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from observing import Answer, headers, observe


class _Tools:
    def __init__(self, tools: Any) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def server(self) -> Any:
        return None

    async def names(self) -> list[str]:
        return list(self._tools)

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        message = await self._tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        blocks = [{"text": message.content}] if isinstance(message.content, str) else message.content
        return Answer(message.status == "error", "\n".join(block.get("text") or json.dumps(block) for block in blocks))


async def main(mode: str, kind: str, *where: str) -> None:
    """Connect and observe."""
    if kind == "pipe":
        connection: Any = {
            "transport": "stdio",
            "command": where[0],
            "args": list(where[1:]),
            "env": dict(os.environ),
        }
    else:
        connection = {"transport": "streamable_http", "url": where[0], "headers": headers()}
    async with MultiServerMCPClient({"penstock": connection}).session("penstock") as session:
        # A name that is not in the list is nothing that its callers can call.
        await observe(mode, _Tools(await load_mcp_tools(session)), without=frozenset({"unknown"}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

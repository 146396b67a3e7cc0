"""The toolset of Pydantic AI: what counts is what the model would get, be it a result or a request to try again.

python pydantic_ai_toolset.py observe|hang http URL           with the key in PENSTOCK_API_KEY
python pydantic_ai_toolset.py observe|hang pipe COMMAND ARGUMENT...
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from observing import Answer, headers, observe
from pydantic_ai.mcp import MCPToolset


class _Toolset:
    def __init__(self, toolset: Any) -> None:
        self._toolset = toolset

    def server(self) -> Any:
        return None

    async def names(self) -> list[str]:
        return [tool.name for tool in await self._toolset.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        value = await self._toolset.direct_call_tool(name, arguments)
        parts = value if isinstance(value, list) else [value]
        return Answer(
            False, "\n".join(part if isinstance(part, str) else json.dumps(part, default=str) for part in parts)
        )


async def main(mode: str, kind: str, *where: str) -> None:
    """Connect and observe."""
    if kind == "pipe":
        transport: Any = StdioTransport(command=where[0], args=list(where[1:]), env=dict(os.environ))
    else:
        transport = StreamableHttpTransport(where[0], headers=headers())
    async with MCPToolset(transport) as toolset:
        await observe(mode, _Toolset(toolset))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

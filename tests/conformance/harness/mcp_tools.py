"""The harness's surface `mcp`: the published functions as tools, called by the SDK's own client over a socket.

`surfaces` imports this only for a session that needs it: the SDK takes most of a second.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.cli.mcp.client import ConnectOptions, connect_mcp
from penstock.cli.mcp.servers import HttpServer
from penstock.mcp_surface.content.blocks import ERROR_META

__all__ = ["open_mcp"]

_TOOLSET = "control"
# Calls a published function; says whether it was refused, and gives the structured result.
_Call = Callable[[str, JsonObject], Awaitable[tuple[bool, JsonObject]]]


@asynccontextmanager
async def open_mcp(server: str, key: str, *, era: str, timeout_seconds: float) -> AsyncIterator[_Call]:
    """A client of a server's MCP address, until the block ends; `era` is the SDK's word for how it connects."""
    # It says of every call that the tool is listed under another name; a driver reads answers, not a log.
    logging.getLogger("client").setLevel(logging.ERROR)
    place = HttpServer(url=f"{server}/mcp?toolset={_TOOLSET}", headers={"Authorization": f"Bearer {key}"})
    async with connect_mcp(place, ConnectOptions(era=era, timeout_seconds=timeout_seconds)) as client:

        async def call(function: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
            return await _called(client, function, arguments)

        yield call


async def _called(client: Client, function: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
    try:
        result = await client.call_tool(function, arguments)
    except MCPError as error:
        raise Unavailable("SERVER_UNREACHABLE", f"{function}: {error!r:.200}") from error
    # A refusal has no structured content, which would have to fit the schema of the tool: programs read `_meta`.
    refusal = (result.meta or {}).get(ERROR_META)
    body: Any = {"error": refusal} if result.is_error and refusal is not None else result.structured_content
    if not isinstance(body, dict):
        raise Unavailable("SERVER_UNREACHABLE", f"{function} answered without an object: {result.content!r:.200}")
    return bool(result.is_error), body

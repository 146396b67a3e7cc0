"""Listing the tools of a server: all pages, within limits."""

from typing import Any

import mcp_types as types
from mcp.client.client import Client
from mcp.server.lowlevel.server import Server

from penstock.base import limits
from penstock.runtime.executors.mcp.tool_listing import listed_tools
from tests.unit.runtime.executors.calls import bounded

HUGE = "x" * limits.UPSTREAM_TOOL_BYTES_MAX
NAMES = [f"tool_{number:03}" for number in range(5)]


async def pages(context: Any, params: Any) -> types.ListToolsResult:
    start = int(params.cursor or 0) if params is not None else 0
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in NAMES[start : start + 2]]
    if start == 0:
        tools.append(types.Tool(name="huge", description=HUGE, input_schema={"type": "object"}))
    more = str(start + 2) if start + 2 < len(NAMES) else None
    return types.ListToolsResult(tools=tools, next_cursor=more)


def names_of(server: Server[Any]) -> list[str]:
    async def work() -> list[str]:
        async with Client(server, cache=None) as client:
            return [tool.name for tool in await listed_tools("shop", client)]

    return bounded(work())


def test_every_page_is_read_and_what_is_too_large_is_left_out() -> None:
    assert names_of(Server("shop", on_list_tools=pages)) == NAMES


def test_a_server_without_tools_has_none() -> None:
    assert names_of(Server("shop")) == []

"""Lists the tools of MCP servers, and keeps a session open with each server whose tools are imported.

A server that cannot be reached is tried again with growing pauses. The tool guard is notified of every change of the
connection's state.

Above it: `executor`, through which `app` starts it. Below it: `session_pool`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND, Tool

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.runtime.executors.mcp.checked_messages import PROBLEM
from penstock.runtime.executors.mcp.following import follow_resources
from penstock.runtime.executors.mcp.session_pool import McpSessionPool
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.upstreams.followed_resources import FollowedResources
from penstock.runtime.upstreams.tools import ServerState, ToolGuard, UpstreamTool

__all__ = ["ServerWatch", "listed_tools"]

_LOGGER = logging.getLogger("penstock.mcp")
_FIRST_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWatch:
    """Watches one server. `refusal` returns why the server must not be connected to."""

    server: str
    connections: McpSessionPool
    guard: ToolGuard
    refusal: Callable[[str], str | None]
    followed: FollowedResources

    async def run(self) -> None:
        """Stay connected until cancelled. Raises nothing else."""
        refused = self.refusal(self.server)
        if refused is not None:
            self.guard.state(self.server, ServerState(status="unavailable", error=refused))
            return
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            self.guard.state(self.server, ServerState(status="connecting"))
            message = "the connection was closed"
            try:
                async with self.connections.borrow(self.server) as (connection, client):
                    pause_seconds = _FIRST_PAUSE_SECONDS
                    connected = ServerState(status="connected", protocol=client.protocol_version)
                    self.guard.state(self.server, connected)
                    connection.on_updated = partial(self.followed.updated, self.server)
                    self.followed.lost(self.server)  # whatever changed before this connection
                    following = asyncio.create_task(follow_resources(self.server, client, self.followed))
                    try:
                        await connection.ended()
                    finally:
                        following.cancel()
            except Exception as error:  # any error of the server, the network or the library leads to another attempt
                message = truncated(str(error) or type(error).__name__)
            self.guard.state(self.server, ServerState(status="unavailable", error=message))
            _LOGGER.info("%s: %s; it is tried again in %g s", self.server, message, pause_seconds)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, limits.MCP_RECONNECT_SECONDS_MAX)


async def listed_tools(server: str, client: Client) -> tuple[UpstreamTool, ...]:
    """All tools that a server lists, up to the limit."""
    found: dict[str, UpstreamTool] = {}
    cursor: str | None = None
    for _ in range(limits.UPSTREAM_TOOLS_MAX):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return ()
            raise
        for listed in page.tools:
            tool = _tool(listed)
            size = len(encode_bytes(tool))
            if size > limits.UPSTREAM_TOOL_BYTES_MAX:
                _LOGGER.warning("%s: the description of %s has %d bytes; it is left out", server, tool.name[:64], size)
            else:
                found.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if cursor is None or len(found) >= limits.UPSTREAM_TOOLS_MAX:
            break
    return tuple(found[name] for name in sorted(found)[: limits.UPSTREAM_TOOLS_MAX])


def _tool(listed: Tool) -> UpstreamTool:
    hints, problem = listed.annotations, (listed.meta or {}).get(PROBLEM)
    return UpstreamTool(
        name=listed.name,
        title=listed.title,
        description=listed.description,
        input_schema=listed.input_schema,
        output_schema=listed.output_schema,
        problem=None if problem is None else str(problem),
        annotations={} if hints is None else hints.model_dump(mode="json", by_alias=True, exclude_none=True),
    )

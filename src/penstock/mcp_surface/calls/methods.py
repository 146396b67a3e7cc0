"""The MCP methods of tools: `tools/list` and `tools/call`."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from penstock.mcp_surface.apps.views import with_view
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.content.blocks import result_at
from penstock.mcp_surface.eras.clients import takes_apps
from penstock.mcp_surface.handlers import COMPLETE, Context, Handler, Requests, one_page
from penstock.mcp_surface.methods import CALL
from penstock.mcp_surface.tasks.tasks import Tasks
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import tool_listing

__all__ = ["ToolMethods"]


class ToolMethods:
    """Handles the methods that list and call tools."""

    def __init__(self, requests: Requests, registry: ToolRegistry, calls: ToolCalls, tasks: Tasks) -> None:
        self._requests = requests
        self._registry = registry
        self._calls = calls
        self._tasks = tasks

    def handlers(self) -> list[Handler]:
        """Return the handler of each method."""
        return [
            Handler("tools/list", types.PaginatedRequestParams, one_page(self._list)),
            Handler(CALL, types.CallToolRequestParams, self._call),
        ]

    async def _list(self, context: Context, params: Any) -> Any:
        caller = self._requests.caller_of(context)
        tool_list = caller.tool_list or await self._registry.of(caller.principal, caller.toolset, caller.remote)
        tools = tool_list.tools
        if takes_apps(context):
            tools = tuple(with_view(tool) for tool in tools)
        return {**tool_listing(tools), **COMPLETE}

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> Any:
        caller, client = self._requests.caller_of(context), self._requests.client(context, params)
        result = await self._calls.call(caller, params.name, dict(params.arguments or {}), client)
        if result["resultType"] == "task":
            return await self._tasks.created(caller, str(result["taskId"]))
        return result_at(context.protocol_version, result)

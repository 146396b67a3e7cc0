"""What a principal is offered over MCP, for operations that explain it: the same list that its client gets.

Above it: the wiring of a server. Below it: `registry`.
"""

from __future__ import annotations

from penstock.base.encoding import encode_bytes
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import BYTES_PER_TOKEN
from penstock.operations.catalogue.offers import ListedTool, OfferedTools
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate

__all__ = ["offer_tools"]


def offer_tools(gate: Gate, options: McpOptions) -> None:
    """Tell operations where MCP is served, and which tools it lists for whom."""
    registry = ToolRegistry(gate, options)

    async def tools_of(principal: Principal, toolset: str | None) -> OfferedTools:
        offered = await registry.of(principal, toolset)
        exposure = await gate.exposed.of(principal.tenant)
        return OfferedTools(
            every=(*gate.catalogue.all(), *exposure.tools.values()),
            callable=offered.operations,
            listed={
                tool.capability.name: ListedTool(tool.name, tool.capability.title, len(encode_bytes(tool.listed)) + 1)
                for tool in offered.tools
            },
            toolset=toolset or principal.toolset or options.toolset,
            bytes_per_token=BYTES_PER_TOKEN,
        )

    gate.services.mcp.path = options.path
    gate.services.mcp.tools_of = tools_of

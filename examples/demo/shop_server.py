"""The shop of the demo: an MCP server over stdio with one tool, `get_order`."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")


@server.tool()
def get_order(id: str) -> dict[str, object]:
    """Look up an order by its id."""
    return {"id": id, "total": 240.0, "customer": "Ada"}


if __name__ == "__main__":
    server.run(transport="stdio")

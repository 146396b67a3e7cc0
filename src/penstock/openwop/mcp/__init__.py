"""The MCP mount of the OpenWOP wire.

It uses the calls, tools and resources of `mcp_surface`, but not the SDK. Read `mount` first.
"""

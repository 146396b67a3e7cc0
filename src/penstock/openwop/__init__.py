"""The OpenWOP wire, version 1: its runs, events, errors and discovery, and the MCP mount of its profile.

A surface on top of `rest` and `mcp_surface`. Read `runs` first.
"""

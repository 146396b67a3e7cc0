"""The OpenWOP wire, version 1, as an optional extra: its runs, events, errors and discovery, and its MCP mount.

Everything about OpenWOP is in this package. It builds on `rest` and `mcp_surface` and calls operations through the
gate. Only the wiring of a server (`app.serving`) imports it: a server works without it. Read `surface` first.
"""

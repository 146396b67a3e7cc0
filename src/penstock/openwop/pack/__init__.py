"""Workflows made of nodes of the pack `core.openwop.mcp`, converted to native documents.

`documents` and `node_types` only compute; `importing` calls operations through the gate. Read `documents` first.
"""

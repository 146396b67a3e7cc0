"""Workflows made of nodes of the pack `core.openwop.mcp`, as native documents. Read `documents` first."""

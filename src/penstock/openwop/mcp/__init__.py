"""The MCP mount of the OpenWOP wire. Read `mount` first."""

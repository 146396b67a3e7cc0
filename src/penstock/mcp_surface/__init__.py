"""The MCP projection of the catalogue."""

"""`tool_call`: calls tools of MCP servers over sessions that stay open. Read `executor` first."""

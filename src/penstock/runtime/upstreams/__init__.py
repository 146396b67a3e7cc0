"""Tools of other MCP servers: what servers describe (`tools`), and what each tenant accepted (`tool_registry`)."""

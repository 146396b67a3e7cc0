"""Questions of an execution as MCP clients see them, and the answers that come back. Read `forms` first."""

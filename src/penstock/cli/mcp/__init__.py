"""`penstock mcp`: the pipe for assistants, a client for people, and a doctor for connections. Read `command` first."""

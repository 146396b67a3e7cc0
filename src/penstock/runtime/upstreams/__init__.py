"""Tools of other MCP servers: what servers describe (`tools`), and what each tenant accepted (`tool_registry`).

It uses the platform store and connects to no server: the executors do. Read `tool_registry` first.
"""

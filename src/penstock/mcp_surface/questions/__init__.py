"""Questions of an execution as MCP clients are asked them, and the answers that come back, without the SDK.

Read `client_questions` first; `clients` is what a client can do, `links` and `signing` are what it carries.
"""

"""Questions of a run as MCP clients are asked them, and the answers that come back, without the SDK.

`clients` is what a client can do; `links` and `signing` make the texts that a client carries to its answer. The package
calls no operations. Read `client_questions` first.
"""

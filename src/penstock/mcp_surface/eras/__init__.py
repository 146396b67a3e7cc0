"""The transports of both eras of MCP: the edge that every HTTP request passes, and what is known of the SDK's insides.

Read `edge` first.
"""

"""Signing in to other MCP servers with OAuth: who we are there, and the tokens that we hold.

`model` has the values and the ports, and `vault` encrypts. `grants` keeps grants in the platform store, `bearers` gives
each request its token and renews it, and `sign_ins` is what operations use. Nothing here connects to a server: the MCP
executor does, through the port `OAuthProtocol`. Read `model` first, then `bearers`.
"""

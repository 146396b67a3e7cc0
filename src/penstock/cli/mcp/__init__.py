"""`penstock mcp`: a server on standard input and output, a client for people, and a doctor for connections.

`servers` says which server is meant; `client` and what imports the SDK are loaded when a command connects. `bridge`
forwards messages to a server and needs no SDK. Read `command` first.
"""

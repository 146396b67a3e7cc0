"""`tool_call`: calls tools of MCP servers over sessions that stay open, and asks the client that started the run.

`executor` makes the calls, `session` and `session_pool` keep the sessions, `questions` handles what servers ask,
`stdio` and `checked_messages` limit what servers send. Only `sdk_internals` uses undocumented parts of the SDK. Read
`executor` first.
"""

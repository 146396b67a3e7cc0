"""`tool_call`: calls tools of MCP servers over sessions that stay open, and asks the client that started the run.

`executor` makes the calls, `session` and `session_pool` keep the sessions, `questions` carries what servers ask,
`stdio` and `checked_messages` limit what servers send. What is taken from inside the SDK is in `sdk_internals` alone.
Read `executor` first.
"""

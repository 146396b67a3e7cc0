"""The transports of both eras of MCP on the SDK, and what a client of each era can do.

    http, http_sse, stdio         sessions and requests over HTTP, the transport of 2024-11-05, and a pipe
    clients, log_messages         what a client declared, and log lines for it
    event_memory, sdk_internals   resumable streams; everything that is used of the SDK's private parts

Read `http` first.
"""

"""The transports of both eras of MCP on the SDK, and what a client of each era can do. Read `http` first.

    http, http_sse, stdio         sessions and requests over HTTP, the transport of 2024-11-05, and a pipe
    clients, log_messages         what a client declared, and log lines for it
    event_memory, sdk_internals   resumable streams; everything that is used of the SDK's private parts

These modules import the SDK. They do not know what a method does: `server` gives them the handlers.
"""

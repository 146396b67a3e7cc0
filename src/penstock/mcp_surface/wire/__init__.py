"""Messages as bytes: JSON-RPC, lines of a pipe, bodies over HTTP, protocol revisions.

Nothing here imports the SDK. Read `messages` first.
"""

"""Messages as bytes: JSON-RPC, lines of a pipe, bodies over HTTP, protocol revisions. Nothing here knows the SDK."""

"""Messages as bytes: JSON-RPC, lines of a pipe, bodies over HTTP, protocol revisions.

Touches nothing else of the surface.
"""

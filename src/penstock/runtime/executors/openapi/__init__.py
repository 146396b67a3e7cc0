"""The executor of `tool_call` nodes that call an API which an OpenAPI document describes.

It talks to APIs with the transport of `http` nodes, and to nothing else of ours. Read `executor` first.
"""

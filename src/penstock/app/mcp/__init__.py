"""A client of one MCP server, for people and for tests: over HTTP or a pipe (`client`, read it first), with the tasks
extension.
"""

"""Calls of tools, prompts and resources through the gate, as conversations with the client. Read `calls` first."""

"""Calling a tool, or anything else that starts a run: wait for the result, ask the client, or create a task.

`call` is one call from its arguments to its result. Only `methods` imports the SDK. Read `calls` first.
"""

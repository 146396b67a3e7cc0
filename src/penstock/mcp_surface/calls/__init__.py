"""Calling a tool, or whatever else starts an execution: wait for the result, ask the client, or make it a task.

Read `calls` first, then `call`, which is one call from its arguments to its result.
"""

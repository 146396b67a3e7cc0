"""Adapters that perform activities: one package per node type, and `outbound`, which they share.

`step` calls Python functions, `http` sends requests (and webhooks), `mcp` calls tools, `llm` asks models, `agents`
delegates tasks. They may use the network, processes and optional libraries. Only `app` names these modules; it loads
most of them when a run first needs them. Read `step` first.
"""

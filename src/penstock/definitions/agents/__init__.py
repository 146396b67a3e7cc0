"""Agents: documents with an `agent` block instead of `nodes`, and the workflow that such a block stands for.

Everything but the checks of its shape reads an agent as that workflow: engine, replay, views, drawings, tests. So an
agent is a run like any other, in which each turn of the model and each call of a tool is a node. The same document
gives the same nodes in every release, because runs in progress depend on them. It is pure. Read `expansion` first.
"""

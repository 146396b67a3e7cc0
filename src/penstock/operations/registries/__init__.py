"""Registries of schemas, models, tools and agents.

`kinds` declares them, and is where a new registry is added; `registry` makes the operations of every declaration. They
may touch `stored_resources` and nothing of the other resources.
"""

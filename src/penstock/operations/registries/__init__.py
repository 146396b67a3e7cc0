"""Registries of schemas, models, tools and agents.

`kinds` declares them, and is where a new registry is added; `registry` makes the operations of every declaration. They
use `stored_resources` and import none of the other resources. Read `kinds` first.
"""

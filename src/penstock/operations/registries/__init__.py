"""Registries of schemas, models, tools and agents.

One module declares each of them, and a new registry is a module more; `registry` makes the operations of every
declaration. They use `stored_resources` and import none of the other resources. Read `schemas` first.
"""

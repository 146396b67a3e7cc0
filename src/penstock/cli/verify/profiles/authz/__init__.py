"""Profile `authz`: who may see and call what. `table` is its table. Read `scopes` first.

A credential counts on the next request, an app sees and calls only what it was granted, and a refusal reveals nothing
about what belongs to others.
"""

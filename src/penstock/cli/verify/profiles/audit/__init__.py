"""Profile `audit`: what happened, and what was refused, can be read afterwards and cannot be changed.

`table` is its table. Read `events` first: it looks for one record per decision; then `contents` and `trail`.
"""

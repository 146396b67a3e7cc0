"""Memory of agents and people in the SQLite file: entries, the index of their words, and how both are erased.

`store` implements the port; `entries` has the statements, `erasing` overwrites what was deleted. Read `store` first.
"""

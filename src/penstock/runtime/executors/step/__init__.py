"""The executor of `step` nodes, with threads for functions that block and processes for functions that compute.

Read `executor` first.
"""

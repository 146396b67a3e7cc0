"""The executor of `step` nodes, with threads for functions that block and processes for functions that compute.

It runs user code, and imports no other executor. Read `executor` first.
"""

"""Stored queries: what a graph offers to callers, and how its queries are checked, offered and run.

`definitions` is how a graph and its queries are stored, `checking` parses and type-checks them, `capabilities` makes a
capability of each query, `running` runs them, `protection` says which changes wait for approval. The operations on
graphs and the exposed tools of a tenant both stand on it. It reaches graphs through their port. Read `definitions`
first.
"""

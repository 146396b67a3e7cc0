"""Stored queries: what a graph offers to callers, and how its queries are checked, offered and run.

Read `definitions` first: it is how a graph and its queries are stored. `checking` parses and type-checks queries,
`capabilities` makes a capability of each one, and `running` runs them. `protection` says which changes wait for
approval. The operations on graphs and the exposed tools of a tenant both use this package. It reaches graphs through
their port.
"""

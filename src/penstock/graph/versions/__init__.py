"""Versions of a graph, without storage: differences between versions, constraints, and three-way merges.

`entities` has the values that stores and their callers exchange, `identity` the identifiers of nodes, and `checking`
what is wrong with a single entity. `ancestry` finds the commit that two branches have in common, and `merging` decides
the result for each entity that changed on either. Read `entities` first.
"""

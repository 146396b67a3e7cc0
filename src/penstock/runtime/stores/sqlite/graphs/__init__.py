"""Graphs in the SQLite file, as row versions: see `penstock.graph.sql.layout` for what a row is.

`store` is the port. `catalogue` has graphs, branches and commits; `type_tables` the tables of node and edge types;
`versions` writes rows, and `constraints` checks what was written; `searching` has text indexes. Each operation has a
module: `reading`, `mutating`, `staging` and `loads`, `merging`, `differences`, `schemas`, `garbage`. All functions
take a connection; those that write run inside a transaction of the file's only writer. Read `catalogue` first, then
`versions`.
"""

"""Operations on graphs: graphs themselves, their schemas, branches, commits, data, and stored queries.

Each module is one subject. What stored queries need besides these operations is in `stored_queries`. All changes go
through the port of graphs, in one transaction with the record of the call. Read `graphs` first.
"""

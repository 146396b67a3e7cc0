"""Types of queries: the checked form of a query, and the checks that lead to it.

`check` turns a syntax tree and a schema into a `CheckedQuery` or findings; the SQL compiler, the parameter schemas
and the descriptions of tools read the checked form and infer nothing again. It does no I/O. Read `patterns` and
`model` first.
"""

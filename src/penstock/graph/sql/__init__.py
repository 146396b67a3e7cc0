"""Checked queries as SQL: one statement for each read, and one for each step of a mutation that looks for entities.

`layout` says in which tables and columns a schema is stored, `dialects` how SQLite and PostgreSQL differ. `reads` and
`mutations` compile; `patterns` does most of the work, with `hops` for traversals of several steps and `conditions` for
conditions and expressions, and `searches` for text indexes. `statement` is the result. Values are bound, never written
into a statement. It does no I/O. Read `statement` first, then `patterns`.
"""

"""Typed property graphs without any I/O: the schema and query languages, their types, their SQL, and merging.

`schema` has the schema language (`.pg`), `query` the query language (`.gq`), and `syntax` what both share. `typing`
checks queries against a schema, `parameters` turns JSON into typed values, and `sql` compiles checked queries.
`versions` has change sets, differences and three-way merges; `records` reads and writes NDJSON. `values` says how
values look in memory, `calendar` how days and times are written. Like `engine`, the package does no I/O and imports
only `definitions` and `base`. Read `schema` first, its `model`; then `query.tree` and `typing.patterns`.
"""

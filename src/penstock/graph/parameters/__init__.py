"""Parameters and answers of checked queries as JSON: coercion, JSON Schemas, and the description of a query as a tool.

It does no I/O. Read `values` first: the table there says which JSON is accepted for which type. `calls` coerces the
parameters of a call, `schemas` has the schemas of input, `answers` those of output, `tools` the texts and hints of
tools.
"""

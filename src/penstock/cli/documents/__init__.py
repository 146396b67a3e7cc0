"""Commands about workflow files: validate, graph, diff, simulate, test, schema. They store nothing.

`reading` reads a document for any of them. Read `reading` first.
"""

"""Commands about workflow files: validate, test, draw, diff, simulate, sign, json-schema. They store nothing.

`reading` reads a document for any of them; `stored` joins some of them with operations on stored workflows. Read
`reading` first.
"""

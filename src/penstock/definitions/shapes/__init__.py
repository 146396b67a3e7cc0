"""Field tables of everything in a document but nodes: the top level, exposure, the published format, shared pieces.

Read `fields` first. The tables of nodes are in `nodes`. `editor_schema` makes JSON Schemas from all of these tables,
and the reference documentation is generated from them too. The package is pure data and imports only `base`.
"""

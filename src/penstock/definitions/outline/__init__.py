"""The outline of a document: its nodes, bodies, routes and places of jq, for either format and for broken documents
too.

Read `document` first. `reach` and `placement` answer questions about the graph. The package is pure and reports
nothing. Below it: `nodes`, `node_parts` and the compilers of jq.
"""

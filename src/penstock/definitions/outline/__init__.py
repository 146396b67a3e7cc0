"""The outline of a document: its nodes, bodies, routes and the places where jq may stand, whatever its format and
however broken it is. Read `document` first; `reach` and `placement` answer questions about the graph.
"""

"""What a document may contain, as field tables: the top level, exposure, the published format, and the pieces that
several objects share. The tables of nodes are in `nodes`.

`editor_schema` makes JSON Schemas from these tables, and the reference is made from them too. Read `fields` first.
"""

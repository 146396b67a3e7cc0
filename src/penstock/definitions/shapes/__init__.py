"""What a document may contain, as field tables: the top level, the node types, exposure, and the published format.

The JSON Schemas are made from these tables. Read `fields` first.
"""

"""The query language (`.gq`): its syntax tree, parser and formatter.

It does no I/O and knows nothing of schemas: `typing` checks a tree against one. Read `tree` first.
"""

"""Commands about graphs that are more than one operation: files of schemas and queries, test cases, loads.

`files` checks and formats `.pg` and `.gq` files, `cases` runs test cases of queries in memory of a moment, `loading`
loads large files in pieces. Read `files` first.
"""

"""What only SQLite can do with runs: the index of their texts, and the order in which decisions were stored.

Read `index` first: it implements the port `run_index` with `text_index` and `changes`.
"""

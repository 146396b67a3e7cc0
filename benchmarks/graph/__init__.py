"""Graphs on a real file: `__main__` measures the store, `peers` runs ladybug and duckdb on the same data beside it."""

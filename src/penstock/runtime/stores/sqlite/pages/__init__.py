"""Pages of history in the SQLite file: one per decision, as records or as a move with its shape.

Read `reader` first.
"""

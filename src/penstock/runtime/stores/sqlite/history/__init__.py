"""Histories of runs: pages of records, one per decision, as records or as a move with its shape.

Read `reader` first: it is the one module that knows all forms of a page.
"""

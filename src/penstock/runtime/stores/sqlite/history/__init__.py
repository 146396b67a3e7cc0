"""Histories of runs: one page per decision, stored as records or as a move with its shape.

These modules take a connection and read or write inside its transaction. Read `reader` first: it is the one module that
knows all forms of a page.
"""

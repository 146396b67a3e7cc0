"""The checks of a document, one subject per module. What concerns one node type only is checked by its own module.

Each takes a document or its outline and returns findings; `penstock.definitions.validate` runs them all. `graph` is a
good one to read first.
"""

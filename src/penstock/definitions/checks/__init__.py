"""The checks of a document, one subject per module.

Each takes an outline and returns findings; `penstock.definitions.validate` runs them all.
"""

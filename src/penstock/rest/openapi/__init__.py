"""The OpenAPI document, built from the catalogue, and the reference page for people.

It imports the catalogue of `operations` and does no I/O. Read `document` first.
"""

"""Checks the shape of a document against Penstock's own JSON Schemas, with messages for its author.

Read `document` first. `validator` walks schema and document together, `keywords` words the messages. The package is
pure and checks one document at a time.
"""

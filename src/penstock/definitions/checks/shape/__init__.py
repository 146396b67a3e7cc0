"""The check of a document's shape against our own JSON Schemas, with messages for the person who wrote it.

Read `document` first.
"""

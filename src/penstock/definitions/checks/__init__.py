"""The checks of a document, one subject per module; the checks of a single node type are in the module of that type.

Read `graph` first. Each check takes a document or its outline and returns findings; `penstock.definitions.validate`
runs them all. The checks are pure: they know nothing beyond the document.
"""

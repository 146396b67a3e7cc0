"""JSON Schema for workflow authors: compiled schemas, their cost, their types and their violations.

Read `compiled` first. The package is pure: it computes with jsonschema-rs and never fetches a reference. Below it:
`base`.
"""

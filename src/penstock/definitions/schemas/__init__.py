"""JSON Schema for workflow authors: compiled schemas, their cost, their types and their violations.

Read `compiled` first.
"""

"""The schema language (`.pg`): its model, parser, checks, formatter, and the plan from one schema to another.

It does no I/O and knows nothing of queries. Read `model` first.
"""

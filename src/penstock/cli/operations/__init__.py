"""A command for every operation, made from the table of operations."""

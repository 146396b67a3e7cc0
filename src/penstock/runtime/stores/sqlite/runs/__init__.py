"""The run store: `store` implements the port, with one module for each kind of table or query.

Read `store` first, then `appending`, which writes the decisions of runs.
"""

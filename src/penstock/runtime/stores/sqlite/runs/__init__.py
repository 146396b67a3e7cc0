"""The run store: `store` implements the port; the other modules are one for each kind of table or query.

They take a connection and run inside the transaction that `store` chooses. Read `store` first. `appending` writes the
decisions of runs and is the hot path.
"""

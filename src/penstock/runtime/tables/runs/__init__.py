"""Runs: the index of runs and their histories, in one module for each thing that is done with them.

Read `store` first: it has every operation. `appending` writes decisions, `history` reads them, `shapes` and `payloads`
are how pages of history are stored, `listing` finds runs, `deleting` removes them.
"""

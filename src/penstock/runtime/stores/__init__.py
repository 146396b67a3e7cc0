"""Store adapters: runs and everything beside them, in memory and in an SQLite file.

Each adapter implements the two ports `runtime.ports.runs` and `runtime.ports.platform`. `rules` holds the behaviour
that both must share. Stores do not import executors, and only `app` names a concrete store. Read `memory` first: it is
the reference.
"""

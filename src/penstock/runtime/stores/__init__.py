"""Adapters that keep runs and everything beside them: in memory, and in an SQLite file.

Each implements the two ports `runtime.ports.runs` and `runtime.ports.platform`; `rules` has what both must do alike.
Stores know nothing of executors. Only `app` names them. Read the stores in `memory` first: they are the reference.
"""

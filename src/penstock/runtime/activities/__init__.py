"""How activities are performed: the port that executors implement, routing, and live progress.

`performing` is the port, `routing` chooses the executor and fills in secrets, `progress` broadcasts live progress. It
knows executors only through the port. Read `performing` first.
"""

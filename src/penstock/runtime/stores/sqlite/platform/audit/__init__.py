"""The audit log in the SQLite file: `records` appends and reads, `heads` seals both ends, `removal` removes and erases.

Read `records` first.
"""

"""The audit log: `records` appends and reads, `heads` seals both ends, `removal` removes and erases.

Read `records` first.
"""

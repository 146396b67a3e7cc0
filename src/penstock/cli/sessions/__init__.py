"""Where a command works: a server, named by its address or by a profile, or a file through the gate of this process.

Read `targets` first.
"""

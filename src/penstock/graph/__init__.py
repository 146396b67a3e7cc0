"""Pure operations on graphs, branches, commits, snapshots and stored queries. Empty for now.

Like `engine`, it will do no I/O and import only `definitions` and `base`.
"""

"""Where a command works: on a server, named by its address or by a profile, or on a database file.

`selection` chooses the target and `clients` calls operations there. A file is opened by `workspace` and called through
`local_client`, which are imported only for a file. Read `selection` first.
"""

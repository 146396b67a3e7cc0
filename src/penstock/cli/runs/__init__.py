"""`penstock runs`: one set of commands about runs, on a file or on a server.

`group` is the table of commands, `client` is how they call operations. `inspection` has those that read a run,
`control` those that change one. Read `client` first.
"""

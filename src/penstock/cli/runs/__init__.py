"""`penstock runs`: one set of commands about runs, on a file or on a server.

`client` is how they call operations. `inspection` has those that read a run, `control` those that change one. Read
`client` first.
"""

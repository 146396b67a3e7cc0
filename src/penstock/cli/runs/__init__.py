"""`penstock runs`: one set of commands about runs, on a file or on a server."""

"""The awaited client, which is written by hand but for `resources`: read `client` first, then `connection`.

`scripts/docs` makes the waiting client in `penstock.client.sync` from it.
"""

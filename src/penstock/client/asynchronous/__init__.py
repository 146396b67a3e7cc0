"""The asynchronous client, written by hand except for `resources`.

`scripts/docs` generates the synchronous client in `penstock.client.sync` from it. It imports httpx2 and the other
modules of `penstock.client`. Read `client` first.
"""

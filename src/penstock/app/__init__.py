"""The composition root: the only package that names real adapters.

`penstock` is the product in one object, `gate` opens a gate on it, `storage` chooses the stores, `executors` makes the
configured executors, `serving` is the server, `settings` reads the settings. It may import everything but the command
line. Read `penstock` first.
"""

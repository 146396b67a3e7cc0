"""The composition root: the only package that names real adapters.

`penstock` is the product in one object, `gate` opens a gate on it, `storage` chooses the stores, `executors` makes the
executors that the settings ask for, `serving` is the server, `settings` reads the settings. Read `penstock` first.
"""

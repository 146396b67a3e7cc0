"""Commands that serve, or look after a server: serve, server worker, backup and migrate, config.

`process` is a running server, shared with `penstock dev`; `app.serving` assembles it. Read `serve` first.
"""

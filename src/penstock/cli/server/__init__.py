"""Commands that serve, or look after a server: serve, worker, config, backup, profile.

`process` is a running server, shared with `penstock dev`; `app.serving` assembles it. Read `serve` first.
"""

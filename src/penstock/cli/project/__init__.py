"""A project folder: `penstock init` makes one, and its files are checked against what the settings name.

`files` loads the workflows of a project, `findings` says what in them does not fit, and `context` is what they may
refer to. The commands that serve, run and validate use these. Read `files` first.
"""

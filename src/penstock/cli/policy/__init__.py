"""`penstock policy`: checks, explains, tests, compares and replays policies.

`check`, `test` and `diff` work on files alone. `explain` and `replay` ask a server, or work on its file. Read `files`
first.
"""

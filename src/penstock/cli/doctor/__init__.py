"""`penstock server doctor`: checks of the whole installation, part by part.

`machine`, `project` and `store` each check one part; they read and connect, and change nothing. Read `command` first.
"""

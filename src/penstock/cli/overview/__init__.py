"""`penstock` without a command: where you are, and what to do next.

`position` looks, `command` prints. They import neither Typer nor a store: the answer is there at once. Read `position`
first.
"""

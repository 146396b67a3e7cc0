"""A command for every operation of the catalogue, made from the client's table of operations.

It imports nothing of the server unless a command works on a file. Read `commands` first.
"""

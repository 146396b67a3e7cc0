"""`penstock dev`: a server that takes up workflows, steps and settings as they are saved.

`file_changes` notices a saved file, `reload` applies it, and `output` reports it. Read `command` first.
"""

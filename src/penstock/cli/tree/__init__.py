"""The tree of commands as data: where each command is, and which old spellings lead to it.

It may be read without Click: `penstock --help` and hints for mistyped commands need no command. Read
`commands` first.
"""

"""`penstock mcp install`: adds Penstock to the configuration files of assistants.

`clients` knows where each assistant keeps its servers, `files` writes there, and `entries` checks what is there. No
other package changes files of other programs. Read `command` first.
"""

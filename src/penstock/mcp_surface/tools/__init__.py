"""The tools of a caller: names, schemas, hints, and which of them are listed.

`tool_list` says what a tool is; `registry` gives each caller a list. Nothing here imports the SDK.
Read `tool_list` first.
"""

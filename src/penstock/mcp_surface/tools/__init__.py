"""The tools of a caller: names, schemas, hints, and which of them are listed. Nothing here knows the SDK.

Read `tool_list` for what a tool is, then `registry`, which gives each caller a list.
"""

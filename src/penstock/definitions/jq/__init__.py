"""jq: expressions and templates that are compiled once, and what can be told about a program without running it.

Read `expressions` first.
"""
